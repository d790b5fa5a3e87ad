"""What of guards a gateway imports that has none."""

import subprocess
import sys


def test_a_gateway_without_guards_and_request_log_imports_only_the_rules_that_its_settings_have() -> None:
    program = (
        "import sys; from app.main import create_app; from app.config.settings import Settings; "
        "create_app(Settings(demo=True)); "
        "print(*[name for name in sys.modules if name.startswith(('app.guards.', 'app.observe.request_log.'))])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == {"app.guards.expressions", "app.guards.rules", "app.guards.verdicts"}
