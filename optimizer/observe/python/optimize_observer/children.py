"""Pass the observer on to Python children only.

os.environ does not contain the observer's variables, so other programs do not receive them. If this process starts Python
(an interpreter, a script with a Python "#!" line, or either of them through a launcher, in a shell command or shell script), the
directory and the OPTIMIZE_OBSERVE_* settings are added to the child's environment.
"""

import os
import sys

import optimize_observer
from optimize_observer import wrap

LAUNCHERS = frozenset(
    "sh bash dash zsh ksh env nice nohup timeout time taskset numactl stdbuf chrt ionice setsid xvfb-run mpirun mpiexec mpiexec.hydra srun raylet".split()
)
SCRIPTS = frozenset("torchrun accelerate deepspeed lightning yolo trl".split())
SCRIPT_SIZE = 64 << 10  # bytes of a script that are read
SEPARATORS = str.maketrans("|&;<>()$`\"'\n\t", " " * 13)


def install():
    import _posixsubprocess

    fork_exec = _posixsubprocess.fork_exec

    def observed_fork_exec(args, executables, *rest):
        # rest is close_fds, pass_fds, cwd, environment, ... in all versions since 3.8.
        try:
            if runs_python(args, executables):
                rest = rest[:3] + (carry(rest[3]),) + rest[4:]
        except Exception:
            pass
        return fork_exec(args, executables, *rest)

    _posixsubprocess.fork_exec = observed_fork_exec
    subprocess = sys.modules.get("subprocess")
    if getattr(subprocess, "_fork_exec", None) is fork_exec:
        subprocess._fork_exec = observed_fork_exec
    install_exec()
    install_system()


def install_exec():
    execve = os.execve

    def make_execv(execv):
        def observed_execv(path, argv):
            flush()
            if safely_runs_python(argv, [path]):
                return execve(path, argv, mapping(None))
            return execv(path, argv)

        return observed_execv

    def make_execve(execve):
        def observed_execve(path, argv, env):
            flush()
            if safely_runs_python(argv, [path]):
                env = mapping(env)
            return execve(path, argv, env)

        return observed_execve

    wrap(os, "execv", make_execv)
    wrap(os, "execve", make_execve)
    for name in ("posix_spawn", "posix_spawnp"):
        if hasattr(os, name):
            wrap(os, name, observed_spawn)


def observed_spawn(spawn):
    def observed(path, argv, env, **options):
        if safely_runs_python(argv, [path]):
            env = mapping(env)
        return spawn(path, argv, env, **options)

    return observed


def install_system():
    def make(system):
        def observed_system(command):
            try:
                if isinstance(command, str) and any(is_python(w) for w in command.translate(SEPARATORS).split()[:64]):
                    values = [os.fsdecode(v).split("=", 1) for v in carry(None) if v.startswith((b"PYTHONPATH=", b"OPTIMIZE_OBSERVE"))]
                    quoted = (k + "='" + v.replace("'", "'\\''") + "'" for k, v in values)
                    command = "export " + " ".join(quoted) + "; " + command
            except Exception:
                pass
            return system(command)

        return observed_system

    wrap(os, "system", make)


def flush():
    """Write the last report before the process is replaced by exec."""
    core = sys.modules.get("optimize_observer.core")
    if core is not None:
        core.observer.end("exec")


def safely_runs_python(args, executables):
    try:
        return runs_python(args, executables)
    except Exception:
        return False


def runs_python(args, executables):
    """Report whether a program with these arguments, the first existing one of executables, starts Python."""
    words = [os.fsdecode(a) for a in list(args)[:64]]
    if not words:
        return False
    if is_python(words[0]) or any(is_python(os.fsdecode(e)) for e in executables):
        return True
    if os.path.basename(words[0]) in LAUNCHERS:
        return names_python(" ".join(words[1:])[:4096]) or any(script_names_python(w) for w in words[1:])
    return script_names_python(next((path for path in executables if os.path.exists(path)), ""))


def script_names_python(path):
    """Report whether a file is a script that names Python in its "#!" line or text. A shell runs one without that line too."""
    try:
        if not os.path.isfile(path):
            return False
        with open(path, "rb") as f:
            text = f.read(SCRIPT_SIZE)
    except (OSError, ValueError):
        return False
    return b"\0" not in text[:256] and names_python(text.decode("utf-8", "replace"))


def names_python(text):
    return any(is_python(w) for w in text.translate(SEPARATORS).split())


def is_python(word):
    name = os.path.basename(word)
    if name in SCRIPTS:
        return True
    for prefix in ("python", "pypy"):
        if name.startswith(prefix):
            return all(c.isdigit() or c in ".t-" for c in name[len(prefix):])
    return word == sys.executable


def carry(environment):
    """Return environment with the observer's variables; environment is a list of b"NAME=value", None for os.environ."""
    if environment is None:
        environment = [k + b"=" + v for k, v in os.environb.items()]
    settings = {os.fsencode(k): os.fsencode(v) for k, v in optimize_observer.settings.items()}
    path, out = os.fsencode(optimize_observer.home), []
    for item in environment:
        name, _, value = os.fsencode(item).partition(b"=")
        if name == b"OPTIMIZE_OBSERVE" and value == b"off":
            return environment
        if name == b"PYTHONPATH":
            path = value if value.split(b":")[0] == path else path + b":" + (value or path)
        else:
            settings.pop(name, None)
            out.append(os.fsencode(item))
    out.append(b"PYTHONPATH=" + path)
    return out + [k + b"=" + v for k, v in settings.items()]


def mapping(environment):
    """Return the result of carry for an environment that is a mapping."""
    items = None
    if environment is not None:
        items = [os.fsencode(k) + b"=" + os.fsencode(v) for k, v in environment.items()]
    return dict(item.partition(b"=")[::2] for item in carry(items))
