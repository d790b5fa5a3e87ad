"""The steps between a client's request and the model, and between the model's reply and the client."""
