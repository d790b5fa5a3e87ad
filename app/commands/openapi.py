"""`parley openapi`: print the OpenAPI document."""

import argparse
import json

from app.config.settings import Settings
from app.main import create_app


def run(arguments: argparse.Namespace) -> int:
    document = create_app(Settings(demo=True)).openapi()
    print(json.dumps(document, indent=2, ensure_ascii=False, sort_keys=True))
    return 0
