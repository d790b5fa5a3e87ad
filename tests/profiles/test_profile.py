"""The fields of a profile that are checked."""

import pytest
from app.profiles.profile import Profile
from pydantic import ValidationError


def test_images_must_be_convertible_to_one_of_the_formats() -> None:
    with pytest.raises(ValidationError, match="must have png or jpeg"):
        Profile.model_validate({"image_formats": ("gif", "webp")})
    assert Profile.model_validate({"image_formats": ("gif", "png")}).image_formats == ("gif", "png")
