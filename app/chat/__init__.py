"""The vocabulary that every other room speaks: messages, events, stages. Pure values, no behaviour of any format."""
