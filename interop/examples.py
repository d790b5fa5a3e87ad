"""The programs in examples/, and how each is run. Knows no package but Python's own."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "examples"
GSON = Path(os.environ.get("GSON_JAR", "/usr/share/java/gson.jar"))
"""Where Debian's package libgoogle-gson-java puts it."""
JAVA_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Without the second compiler, which is for programs that run longer, Java takes half of the CPU time."""
BUILD_SECONDS, RUN_SECONDS = 600, 60
ANSWER = """\
[reasoning_content] The user asks: “What is the weather in Paris?”. These functions can help: get_weather.
[content] Let me check.
[function_call] get_weather {"city": "Paris"}
[result] It is 21 °C in Paris.
[reasoning_content] The functions have answered. I shall report what they returned.
[content] The function get_weather returned: It is 21 °C in Paris.
"""
"""What every program prints with the demo model, but for the number of spaces."""
AGENT_ANSWER = ANSWER.replace("“", "“(Uploaded ![image](image.png)) ", 1)
"""What the agents print, which also send an image."""


@dataclass(frozen=True, slots=True)
class Example:
    title: str
    file: str
    command: tuple[str, ...]
    """`{build}` is a folder for what is built."""
    build: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    """Programs, files, and modules of Python (`module:name`)."""
    heavy: bool = field(default=False)
    """Its build takes minutes."""
    version_command: tuple[str, ...] = ()
    """Prints the version of what runs it."""
    agent: bool = field(default=False)
    """It sends an image too, and resumes a reply after a lost connection."""

    @property
    def path(self) -> Path:
        return FOLDER / self.file

    @property
    def answer(self) -> str:
        """What it prints with the demo model, but for the number of spaces."""
        return AGENT_ANSWER if self.agent else ANSWER

    def find_missing(self) -> str | None:
        """What must be installed before it runs."""
        for need in self.needs:
            if need.startswith("module:"):
                found = find_spec(need.removeprefix("module:")) is not None
            elif need.startswith("/"):
                found = Path(need).exists()
            else:
                found = shutil.which(need) is not None
            if not found:
                return need.removeprefix("module:")
        return "node 22.18" if self.file.endswith(".mts") and _node_version() < (22, 18) else None

    def find_version(self) -> str:
        """The version of what runs it, with the name that this gives itself: `go1.19.8`, `v20.20.2`."""
        done = subprocess.run(self.version_command, capture_output=True, text=True)
        found = re.search(r"\S*\d+\.\d+\S*", done.stdout)
        return found[0] if found else "unknown version"

    def make(self, folder: Path) -> None:
        """Build it, if it must be built. Raises CalledProcessError and TimeoutExpired."""
        if self.build:
            # Compilers have their caches in the usual places, which the tests hide from gateways.
            environment = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
            command = _fill(self.build, folder)
            subprocess.run(command, cwd=FOLDER, env=environment, check=True, timeout=BUILD_SECONDS, capture_output=True)

    def run(self, folder: Path, url: str) -> subprocess.CompletedProcess[str]:
        """Run it against the gateway at this URL. Raises TimeoutExpired."""
        environment = {**os.environ, "PARLEY_URL": url, "PARLEY_API_KEY": "any", "NO_PROXY": "*", "no_proxy": "*"}
        command = _fill(self.command, folder)
        return subprocess.run(
            command, cwd=FOLDER, env=environment, capture_output=True, text=True, encoding="utf-8", timeout=RUN_SECONDS
        )

    def count_lines(self) -> int:
        """The lines of the file without blank lines and those that are only a comment."""
        lines = [line.strip() for line in self.path.read_text("utf-8").splitlines()]
        return sum(not _NO_CODE.match(line) for line in lines)


_NO_CODE = re.compile(r'$|//|#|"""|/\*\*')


def _node_version() -> tuple[int, ...]:
    text = subprocess.run(["node", "--version"], capture_output=True, text=True).stdout
    return tuple(map(int, text.strip().removeprefix("v").split(".")))


def _fill(command: tuple[str, ...], folder: Path) -> list[str]:
    return [part.replace("{build}", str(folder)) for part in command]


def tidy(output: str) -> str:
    """Without spaces beside others or at the end of a line."""
    return "".join(" ".join(line.split()) + "\n" for line in output.splitlines())


CHATS = (
    Example(
        "curl",
        "curl/chat.sh",
        ("bash", "curl/chat.sh"),
        needs=("bash", "curl", "jq"),
        version_command=("curl", "--version"),
    ),
    Example(
        "Python, httpx",
        "python/chat.py",
        (sys.executable, "python/chat.py"),
        needs=("module:httpx",),
        version_command=(sys.executable, "--version"),
    ),
    Example(
        "Python, openai",
        "python/chat_openai.py",
        (sys.executable, "python/chat_openai.py"),
        needs=("module:openai",),
        version_command=(sys.executable, "--version"),
    ),
    Example(
        "JavaScript",
        "javascript/chat.mjs",
        ("node", "javascript/chat.mjs"),
        needs=("node",),
        version_command=("node", "--version"),
    ),
    Example(
        "TypeScript",
        "typescript/chat.mts",
        ("node", "typescript/chat.mts"),
        needs=("node",),
        version_command=("node", "--version"),
    ),
    Example(
        "Go",
        "go/chat.go",
        ("{build}/chat",),
        ("go", "build", "-o", "{build}/chat", "go/chat.go"),
        ("go",),
        version_command=("go", "version"),
    ),
    Example(
        "Java",
        "java/Chat.java",
        ("java", *JAVA_OPTIONS, "-cp", f"{{build}}:{GSON}", "Chat"),
        ("javac", *(f"-J{option}" for option in JAVA_OPTIONS), "-cp", str(GSON), "-d", "{build}", "java/Chat.java"),
        ("javac", str(GSON)),
        version_command=("javac", "--version"),
    ),
    Example(
        "Rust",
        "rust/src/main.rs",
        ("{build}/debug/chat",),
        ("cargo", "build", "--manifest-path", "rust/Cargo.toml", "--target-dir", "{build}"),
        ("cargo",),
        version_command=("cargo", "--version"),
        heavy=True,
    ),
    Example(
        "C#",
        "csharp/Chat.cs",
        ("dotnet", "{build}/Chat.dll"),
        ("dotnet", "build", "csharp", "-o", "{build}"),
        ("dotnet",),
        version_command=("dotnet", "--version"),
        heavy=True,
    ),
    Example("PHP", "php/chat.php", ("php", "php/chat.php"), needs=("php",), version_command=("php", "--version")),
    Example("Ruby", "ruby/chat.rb", ("ruby", "ruby/chat.rb"), needs=("ruby",), version_command=("ruby", "--version")),
)
AGENTS = (
    Example(
        "Python, httpx, an agent",
        "python/agent.py",
        (sys.executable, "python/agent.py"),
        needs=("module:httpx",),
        version_command=(sys.executable, "--version"),
        agent=True,
    ),
    Example(
        "JavaScript, an agent",
        "javascript/agent.mjs",
        ("node", "javascript/agent.mjs"),
        needs=("node",),
        version_command=("node", "--version"),
        agent=True,
    ),
    Example(
        "Go, an agent",
        "go/agent.go",
        ("{build}/agent",),
        ("go", "build", "-o", "{build}/agent", "go/agent.go"),
        ("go",),
        version_command=("go", "version"),
        agent=True,
    ),
    Example(
        "Java, an agent",
        "java/Agent.java",
        ("java", *JAVA_OPTIONS, "-cp", f"{{build}}:{GSON}", "Agent"),
        ("javac", *(f"-J{option}" for option in JAVA_OPTIONS), "-cp", str(GSON), "-d", "{build}", "java/Agent.java"),
        ("javac", str(GSON)),
        version_command=("javac", "--version"),
        agent=True,
    ),
    Example(
        "C#, an agent",
        "csharp/agent/Agent.cs",
        ("dotnet", "{build}/Agent.dll"),
        ("dotnet", "build", "csharp/agent", "-o", "{build}"),
        ("dotnet",),
        version_command=("dotnet", "--version"),
        heavy=True,
        agent=True,
    ),
)
EXAMPLES = (*CHATS, *AGENTS)
