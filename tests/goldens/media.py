"""What is different for models with eyes and for media that are only named to a model."""

from tests.goldens.expectations import Expected, Json, user

NO_LOCAL_FILES = "the gateway does not read files of its own machine"


def refused(path: str) -> Expected:
    return Expected(
        request=NO_LOCAL_FILES,
        output="an HTTP error that names the item",
        requests=0,
        error={"status": 422, "code": "invalid_request", "param": path},
    )


def parts(role: str, *texts: str) -> Json:
    return {"role": role, "content": [{"type": "text", "text": text} for text in texts]}


MEDIA: dict[str, Expected] = {
    "04_text_model_image_b64": Expected(
        request="a data URI contains no file name: the image is named by its type",
        body={"messages": [user("(Uploaded ![image](image.png)) Look")]},
    ),
    "04_text_model_image_in_assistant": Expected(
        request="as Qwen-Agent does, an assistant's image is left out, because no user uploaded it; but with a warning"
    ),
    "05_vl_audio_str": Expected(
        request="an item that is described as text is not sent as well",
        body={"messages": [parts("user", "(Uploaded ![audio](a.wav)) ", "x")]},
    ),
    "05_vl_empty_text": Expected(
        request="an empty assistant turn is left out; a user's message always has content",
        body={"messages": [parts("user", "Hi"), user("")]},
    ),
    "05_vl_image_local": refused("messages[0].content[0].image"),
    "05_vl_image_local_resize": refused("messages[0].content[0].image"),
    "05_vl_image_missing": refused("messages[0].content[0].image"),
    "05_vl_video_local": refused("messages[0].content[0].video"),
    "05_vl_video_local_frames": refused("messages[0].content[0].video[0]"),
}
