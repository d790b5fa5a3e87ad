"""Messages of AutoGen that are accepted, and messages that are refused."""

ACCEPTED = {
    r"code_blocks left out|retry_attempt left out": "versions before 0.5.4 wrote none",
    r"content\.\*\.arguments = \{\}": "arguments as an object are taken as their JSON text",
    r"(context\.\*\.)?content\.\*\.name (left out|= null)": "versions before 0.4.8 wrote none: the call has it",
    r"created_at = (2\.5|3)": "seconds, which AutoGen's own classes load",
    r"metadata = null": "metadata that are null are none",
    r"(models_usage\.\w+|result\.exit_code|retry_attempt) = true": "AutoGen's own classes load it as 1",
}
"""What the documents refuse and the gateway takes."""

REFUSED = {
    r"(context\.\*\.)?type left out": "the items of a list are distinguished by their type",
    r"type = .*": "the documents name no type for StructuredMessage; AutoGen computes it as StructuredMessage[Name]",
    r"content\.\* = .*|content\.\*\.data( left out| = .*)": "the documents say nothing of images; AutoGen loads base64",
    r"content\.\*\.content = (null|2\.5|3|true|\[\])": "the documents say nothing of images; there is no other memory",
    r'content\.\*\.name = ""': "no model server takes a call of no function",
    r'created_at = ("x"|"")': "not a time: the format that the documents name is not checked by JSON schema",
}
"""What the documents take and the gateway refuses."""
