"""Each function with each argument, by Halite and by Python Salt, from the same state of the same box.

    VENV/bin/python testdata/compare/compare.py [-k PATTERN] [-v] [--coverage] [MODULE...]

VENV is a virtual environment of Python Salt 3006; root on Debian is needed. A
case is one line of cases/MODULE.yaml: a salt-call command line. Both programs run it in
sandboxes of their own (sandbox.py); then what they printed, the
exit code and all files that changed are compared. --coverage says which
arguments of Python's functions no case gives.
"""
import argparse
import contextlib
import copy
import difflib
import hashlib
import io
import json
import os
import re
import shlex
import shutil
import sys
import tempfile
import traceback
import warnings

warnings.simplefilter("ignore")
HERE = os.path.dirname(os.path.realpath(__file__))

import salt.config  # noqa: E402
import salt.loader  # noqa: E402
import salt.scripts  # noqa: E402
import salt.cli.call  # noqa: E402,F401
import salt.cli.caller  # noqa: E402,F401
import salt.minion  # noqa: E402,F401
import yaml  # noqa: E402

import sandbox  # noqa: E402

CONFIG = """\
id: box
file_client: local
root_dir: {home}
pki_dir: {home}/pki
cachedir: {home}/cache
file_roots: {{base: [/srv/salt]}}
pillar_roots: {{base: [/srv/pillar]}}
log_file: {home}/log
"""

# Never compared: caches, logs and what holds times.
IGNORED = [
    r"/var/log", r"/var/cache/(apt|man|ldconfig|debconf)", r"/var/lib/apt/(lists|periodic)", r"/etc/ld\.so\.cache", r"/root/\.cache",
    r"/var/lib/dpkg/(lock.*|triggers/Lock|available-old|status-old|.*\.dpkg-.*)", r"/var/lib/apt/extended_states", r"__pycache__",
    r"/etc/\.pwd\.lock", r"/run/(lvm|lock)", r"/etc/lvm/(archive|backup|cache)", r"/usr/share/(info/dir|man)", r"\.git/(index|logs)", r"/var/lib/systemd/deb-systemd.*", r"/usr/lib/locale/locale-archive",
]


class SetUpError(Exception):
    """A set-up text of a case did not work."""


class Box:
    """The layers below all cases, and the two programs."""

    def __init__(self, halite):
        self.home = tempfile.mkdtemp(prefix="compare-", dir="/tmp")
        self.owner = os.getpid()
        sandbox.unshare(sandbox.NEWNS)
        sandbox.mount("none", "/", "", sandbox.MS_REC | sandbox.MS_PRIVATE)
        sandbox.drop_capabilities()
        self.etc = f"{self.home}/etc"
        os.makedirs(self.etc)
        self.layers = f"{self.home}/layers/"
        os.makedirs(self.layers)
        sandbox.mount("layers", self.layers, "tmpfs", 0, "size=8g,mode=755")
        with open(f"{self.etc}/minion", "w", encoding="utf-8") as f:
            f.write(CONFIG.format(home=f"{self.home}/run"))
        # Outside of the layers' tmpfs: a sandbox sees what / holds.
        shutil.copy(halite, f"{self.home}/salt-call")
        self.ignored = re.compile("|".join(IGNORED + [re.escape(self.home)]))
        self.count = 0
        self.known = {}

    def close(self):
        if os.getpid() == self.owner:
            sandbox.libc.umount2(f"{self.home}/layers".encode(), sandbox.MNT_DETACH)
            shutil.rmtree(self.home, ignore_errors=True)

    def new(self):
        self.count += 1
        return f"{self.layers}{self.count}"

    def layer(self, lowers, text):
        """The layers with what a shell text does on top; the same text is run once."""
        if not text:
            return lowers
        key = (tuple(lowers), text)
        if key not in self.known:
            d = self.new()
            upper = f"{d}/upper"
            with open(f"{d}-out", "w+b") as out:
                code = sandbox.run(d, lowers, upper, lambda: sandbox.shell(f"set -e\n{text}", out), timeout=900)
            if code != 0:
                raise SetUpError(f"set-up failed ({code}): {text}\n{self.read(f'{d}-out')}")
            self.known[key] = [upper] + lowers
        return self.known[key]

    @staticmethod
    def below(path, lowers):
        """What path was before the call."""
        return next((sandbox.describe(low + path) for low in lowers if os.path.lexists(low + path)), "nothing")

    @staticmethod
    def read(path):
        try:
            with open(path, encoding="utf-8", errors="backslashreplace") as f:
                return f.read()
        except FileNotFoundError:
            return ""

    def try_case(self, case, lowers, program):
        """Run one case by one program."""
        d = self.new()
        names = {n: f"{d}-{n}" for n in ("out", "err", "see")}
        argv = ["salt-call", "-c", self.etc, "--local", "--out=json", *case.get("options", []), *case.words]

        # What a sandbox writes outside of its root goes through descriptors opened here.
        files = {n: os.open(p, os.O_RDWR | os.O_CREAT, 0o600) for n, p in names.items()}

        def job():
            if "pre" in case:
                sandbox.shell(case["pre"], sandbox.subprocess.DEVNULL)
            if "stdin" in case:
                r, w = os.pipe()
                os.write(w, case["stdin"].encode())
                os.close(w)
                os.dup2(r, 0)
            else:
                os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
            pid = os.fork()
            if pid == 0:
                os.dup2(files["out"], 1)
                os.dup2(files["err"], 2)
                os.environ.clear()
                os.environ.update(CLEAN_ENV)
                os._exit(python_salt_call(argv) if program == "python" else halite_salt_call(f"{self.home}/salt-call", argv))
            _, status = os.waitpid(pid, 0)
            if "see" in case:
                os.dup2(files["see"], 1)
                os.dup2(files["see"], 2)
                os.system(case["see"])
            return os.waitstatus_to_exitcode(status) & 0xFF

        code = sandbox.run(d, lowers, f"{d}/upper", job, private_net=case.get("net", False), timeout=case.get("timeout", 180))
        result = {"rc": code, "effects": sandbox.effects(f"{d}/upper", lowers, lambda p: self.ignored.search(p))}
        for n, p in names.items():
            os.close(files[n])
            result[n] = self.read(p)
            os.unlink(p)
        shutil.rmtree(d, ignore_errors=True)
        return result


CLEAN_ENV = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "USER": "root", "LOGNAME": "root",
    "LANG": "C.UTF-8", "SHELL": "/bin/bash", "TERM": "dumb",
}


def halite_salt_call(path, argv):
    try:
        os.execv(path, argv)
    except OSError as e:
        print(e, file=sys.stderr)
        return 126


def python_salt_call(argv):
    """salt-call in this process, which has Salt loaded."""
    sys.argv = argv
    sys.stdin = io.TextIOWrapper(os.fdopen(0, "rb", closefd=False))
    sys.stdout = io.TextIOWrapper(os.fdopen(1, "wb", closefd=False), encoding="utf-8", line_buffering=True)
    sys.stderr = io.TextIOWrapper(os.fdopen(2, "wb", closefd=False), encoding="utf-8", line_buffering=True)
    sys.__stdout__, sys.__stderr__, sys.__stdin__ = sys.stdout, sys.stderr, sys.stdin
    code = 0
    try:
        salt.scripts.salt_call()
    except SystemExit as e:
        code = e.code if isinstance(e.code, int) else (0 if e.code is None else 1)
        if isinstance(e.code, str):
            print(e.code, file=sys.stderr)
    except BaseException as e:  # pylint: disable=broad-except
        print("".join(traceback.format_exception_only(e)), file=sys.stderr)
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def warm_up(etc):
    """Load Salt once: its imports and the grains. """
    opts = salt.config.minion_config(f"{etc}/minion")
    grains = salt.loader.grains(opts)
    salt.loader.grains = lambda *a, **k: copy.deepcopy(grains)
    opts["grains"] = grains
    salt.loader.minion_mods(opts, utils=salt.loader.utils(opts))["test.ping"]()


class Case(dict):
    """One line of a case file, with its place and words."""

    def __init__(self, data, module, group):
        super().__init__(data if isinstance(data, dict) else {"run": data})
        for key in ("pre", "see", "net", "mask", "timeout", "differs", "stdin", "unordered"):
            if key in group and key not in self:
                self[key] = group[key]
        self.module = module
        self.set = "\n".join(t for t in (group.get("set"), self.get("set")) if t)
        self.words = shlex.split(self["run"])
        self.fun = self.words[0]


def load_cases(modules):
    for module in modules:
        with open(f"{HERE}/cases/{module}.yaml", encoding="utf-8") as f:
            for group in yaml.safe_load(f):
                for data in group["calls"]:
                    yield Case(data, module, group)


def masked(text, case, box):
    text = text.replace(box.home, "HOME")
    for pattern in case.get("mask", []):
        text = re.sub(pattern, "*", text)
    return text


def parsed(out, case, box):
    """The return, laid out so that the order of mappings does not matter."""
    try:
        value = json.loads(out)
    except ValueError:
        out = masked(out, case, box)
        return "(text)" if out.startswith("\n    ") else out  # documentation, after a wrong call: our words are our own
    if case.get("unordered"):
        value = in_order(value)
    return masked(json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False), case, box)


def in_order(v):
    if isinstance(v, dict):
        return {k: in_order(x) for k, x in v.items()}
    if isinstance(v, list):
        return sorted((in_order(x) for x in v), key=lambda x: json.dumps(x, sort_keys=True))
    return v


def errors(text, case, box):
    """What was printed as an error, without Python's own warnings and the stack of a traceback."""
    lines, stack = [], False
    for line in masked(text, case, box).splitlines():
        if stack and line.startswith(" "):
            continue
        stack = line.startswith("Traceback (most recent call last)")
        if stack or "DeprecationWarning" in line or line.startswith("  import ") or not line.strip():
            continue
        lines.append(line.rstrip())
    return "\n".join(lines)


def compare(case, box, lowers, theirs, ours):
    """Names and texts of what is different."""
    found = {}
    pairs = {
        "return": (parsed(theirs["out"], case, box), parsed(ours["out"], case, box)),
        "exit code": (str(theirs["rc"]), str(ours["rc"])),
        "stderr": (errors(theirs["err"], case, box), errors(ours["err"], case, box)),
        "see": (masked(theirs["see"], case, box), masked(ours["see"], case, box)),
    }
    for path in sorted(set(theirs["effects"]) | set(ours["effects"])):
        before = box.below(path, lowers)
        name = masked(path, case, box)
        both = pairs.get(name, ("", ""))
        now = [masked(r["effects"].get(path, before), case, box) for r in (theirs, ours)]
        pairs[name] = tuple(old if text == "nothing" else old + text for old, text in zip(both, now))
    for name, (a, b) in pairs.items():
        if a != b:
            found[name] = "\n".join(list(difflib.unified_diff(a.splitlines(), b.splitlines(), "python", "halite", lineterm="", n=1))[2:])
    return found


class Cache:
    """Python's answers from run to run: they change only with the case and the base."""

    def __init__(self, path):
        self.path = path
        with open(f"{HERE}/base.sh", encoding="utf-8") as f:
            self.base = CONFIG + f.read()
        if path:
            os.makedirs(path, exist_ok=True)

    def file(self, case):
        facts = {k: v for k, v in case.items() if k not in ("mask", "differs", "unordered")}
        return f"{self.path}/{hashlib.sha256(json.dumps([self.base, case.set, facts], sort_keys=True).encode()).hexdigest()}"

    def get(self, case):
        if not self.path or not os.path.exists(self.file(case)):
            return None
        with open(self.file(case), encoding="utf-8") as f:
            return json.load(f)

    def put(self, case, box, answer):
        if self.path:
            for name in ("out", "err", "see"):
                answer[name] = answer[name].replace(box.home, "HOME")
            with open(f"{self.file(case)}.{os.getpid()}", "w", encoding="utf-8") as f:
                json.dump(answer, f)
            os.rename(f.name, self.file(case))
        return answer


def argspecs(box, base, modules):
    specs = {}
    for module in modules:
        answer = box.try_case(Case(f"sys.argspec {module}", module, {}), base, "python")
        specs.update({n: s for n, s in json.loads(answer["out"])["local"].items() if n.split(".")[0] == module})
    return specs


def coverage(specs, cases):
    """Which arguments the cases give. Prints those that none gives."""
    with open(f"{HERE}/uncovered.yaml", encoding="utf-8") as f:
        excused = yaml.safe_load(f) or {}
    given = {}
    for case in cases:
        have = given.setdefault(case.fun, set())
        names = (specs.get(case.fun) or {}).get("args") or []
        place = 0
        for word in case.words[1:]:
            key = re.match(r"([A-Za-z_]\w*)=", word)
            if key and (key[1] in names or (specs.get(case.fun) or {}).get("kwargs")):
                have.add(key[1])
            elif place < len(names):
                have.add(names[place])
                place += 1
    wanted = missing = functions_called = 0
    for name, spec in sorted(specs.items()):
        if name in excused:
            continue
        args = [a for a in spec["args"] or [] if f"{name}({a})" not in excused]
        wanted += len(args)
        gone = [a for a in args if a not in given.get(name, ())]
        missing += len(gone)
        functions_called += name in given
        if name not in given:
            print(f"no case: {name}({', '.join(args)})")
        elif gone:
            print(f"no case: {name}: {', '.join(gone)}")
    total = len([n for n in specs if n not in excused])
    print(f"coverage: {functions_called} of {total} functions, {wanted - missing} of {wanted} arguments")
    return missing


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("modules", nargs="*")
    parser.add_argument("-k", metavar="PATTERN", help="only cases whose command line matches")
    parser.add_argument("-v", action="store_true", help="print both answers of each case")
    parser.add_argument("--coverage", action="store_true", help="only tell what the cases cover")
    parser.add_argument("--halite", default=os.environ.get("HALITE", "./halite"))
    parser.add_argument("--cache", metavar="DIR", help="keep Python's answers there, and use those that are there")
    parser.add_argument("-j", type=int, default=4, help="so many cases at a time")
    a = parser.parse_args()
    modules = a.modules or sorted(n[:-5] for n in os.listdir(f"{HERE}/cases") if n.endswith(".yaml"))
    cases = list(load_cases(modules))
    box = Box(a.halite)
    try:
        warm_up(box.etc)
        with open(f"{HERE}/base.sh", encoding="utf-8") as f:
            base = box.layer(["/"], f.read())
        if a.coverage:
            return 1 if coverage(argspecs(box, base, modules), cases) else 0
        return compare_all(box, base, [c for c in cases if not a.k or re.search(a.k, c["run"])], a)
    finally:
        box.close()


def chunks(cases, most=16):
    """Runs of cases with the same set-up."""
    part = []
    for case in cases:
        if part and (part[-1].set != case.set or len(part) == most):
            yield part
            part = []
        part.append(case)
    if part:
        yield part


def try_chunk(box, base, cases, a):
    """The cases one after the other: what each gave, as the report has it."""
    cache = Cache(a.cache)
    answers = []
    for case in cases:
        try:
            lowers = box.layer(base, case.set)
        except SetUpError as e:
            answers.append({"run": case["run"], "differs": None, "found": {"set-up": str(e)[-2000:]}, "text": ""})
            continue
        theirs = cache.get(case) or cache.put(case, box, box.try_case(case, lowers, "python"))
        ours = box.try_case(case, lowers, "halite")
        text = ""
        if a.v:
            text = f"--- {case['run']}\npython {theirs['rc']}: {theirs['out']}{theirs['err']}halite {ours['rc']}: {ours['out']}{ours['err']}"
        answers.append({"run": case["run"], "differs": case.get("differs"), "found": compare(case, box, lowers, theirs, ours), "text": text})
    return answers


def in_parallel(box, base, cases, a):
    """try_chunk in a.j processes; the answers in the order of the cases."""
    waiting, running, done = list(enumerate(chunks(cases))), {}, {}
    while waiting or running:
        while waiting and len(running) < a.j:
            n, part = waiting.pop(0)
            pid = os.fork()
            if pid == 0:
                code = 1
                try:
                    box.layers = f"{box.layers}/{n}-"
                    with open(f"{box.home}/chunk{n}", "w", encoding="utf-8") as f:
                        json.dump(try_chunk(box, base, part, a), f)
                    code = 0
                except Exception:  # pylint: disable=broad-except
                    traceback.print_exc()
                finally:
                    os._exit(code)
            running[pid] = n
        pid, status = os.wait()
        n = running.pop(pid)
        if status != 0:
            raise SystemExit("a worker failed")
        with open(f"{box.home}/chunk{n}", encoding="utf-8") as f:
            done[n] = json.load(f)
    return [answer for n in sorted(done) for answer in done[n]]


def compare_all(box, base, cases, a):
    same = expected = different = 0
    answers = in_parallel(box, base, cases, a)
    for answer in answers:
        if answer["text"]:
            print(answer["text"])
        if not answer["found"]:
            same += 1
            if answer["differs"]:
                print(f"NO LONGER DIFFERENT {answer['run']}: {answer['differs']}")
        elif answer["differs"]:
            expected += 1
        else:
            different += 1
            print(f"DIFFERENT {answer['run']}")
            for what, text in answer["found"].items():
                print(f"  {what}:\n" + "\n".join("    " + line for line in text.splitlines()[:60]))
    print(f"{same} the same, {expected} different on purpose, {different} different")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
