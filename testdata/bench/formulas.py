"""Public formulas with Python Salt and with Halite, compared.

    VENV/bin/python testdata/bench/formulas.py [--halite ./halite] [--os NAME,...] [--keep FILE] DIR [FORMULA...]
    VENV/bin/python testdata/bench/formulas.py --apply [--halite ./halite] DIR FORMULA...

VENV is a virtual environment of Python Salt, DIR holds checkouts of formulas
(DIR/openssh-formula, ...). FORMULA is NAME[:PILLAR[:SLS,...]], for example
users-formula:test/salt/pillar/default.sls:users.sudo; without a pillar it is
pillar.example and each pillar of the test directory, without SLS files the one
that is named as the formula.

Without --apply every formula is compiled, for each system named: the low data
of its SLS by state.show_lowstate, the high data of each of its SLS files by
state.show_sls. Both sides get the grains that Python Salt finds on this box,
those of the system laid over them. --keep stores what Python Salt answered, so
that a second run takes it from there.

With --apply (as root) each side applies the formula twice, in namespaces of its
own (mounts, processes, host name) with overlays over the system's directories:
nothing of this box is changed. Compared are the returns of the first run and
the files that differ from the box afterwards; the second run must change nothing.

Prints a line for each difference, then a table; the exit code is 1 if anything
differs.
"""
import argparse, glob, hashlib, json, logging, os, re, shutil, stat, subprocess, sys, tempfile

SYSTEMS = {
    "Debian": {"os": "Debian", "os_family": "Debian", "osfullname": "Debian", "oscodename": "bookworm", "osrelease": "12",
               "osmajorrelease": 12, "osfinger": "Debian-12", "init": "systemd"},
    "RedHat": {"os": "AlmaLinux", "os_family": "RedHat", "osfullname": "AlmaLinux", "oscodename": "AlmaLinux 9.4", "osrelease": "9.4",
               "osmajorrelease": 9, "osfinger": "AlmaLinux-9", "osarch": "x86_64", "init": "systemd"},
    "Suse": {"os": "SUSE", "os_family": "Suse", "osfullname": "Leap", "oscodename": "openSUSE Leap 15.5", "osrelease": "15.5",
             "osmajorrelease": 15, "osfinger": "Leap-15", "osarch": "x86_64", "init": "systemd"},
    "Arch": {"os": "Arch", "os_family": "Arch", "osfullname": "Arch Linux", "oscodename": "", "osrelease": "rolling",
             "osmajorrelease": "", "osfinger": "Arch Linux-rolling", "osarch": "x86_64", "init": "systemd"},
    "FreeBSD": {"os": "FreeBSD", "os_family": "FreeBSD", "kernel": "FreeBSD", "osfullname": "FreeBSD", "oscodename": "", "osrelease": "13.2",
                "osmajorrelease": 13, "osfinger": "FreeBSD-13", "osarch": "amd64", "init": "unknown"},
}


class Case:
    """One formula with one pillar on one system: a configuration directory."""

    def __init__(self, work, formulas, name, pillar, apply, grains):
        self.name, self.pillar = name, os.path.relpath(pillar, os.path.join(formulas, name)) if pillar else "no pillar"
        self.dir = tempfile.mkdtemp(dir=work)
        own = os.path.join(formulas, name)
        self.main = name[: -len("-formula")].replace("template", "TEMPLATE")
        others = [d for d in sorted(glob.glob(os.path.join(formulas, "*-formula"))) if d != own]
        top = os.path.join(self.dir, "top")
        pillars = os.path.join(self.dir, "pillar")
        os.makedirs(top), os.makedirs(pillars)
        self.sls = sorted(self.files(own))
        if self.main not in self.sls and self.sls:
            self.main = self.sls[0]
        self.write("top/top.sls", {"base": {"*": apply or [self.main]}})
        self.write("pillar/top.sls", {"base": {"*": ["formula"] if pillar else []}})
        if pillar:
            shutil.copy(pillar, os.path.join(pillars, "formula.sls"))
        self.write("minion", {
            "id": "formula", "file_client": "local", "root_dir": self.dir, "cachedir": "cache", "log_file": "log", "pki_dir": "pki",
            "sock_dir": "run", "log_level_logfile": "quiet", "file_roots": {"base": [top, own] + others},
            "pillar_roots": {"base": [pillars]}, "grains": grains, "extension_modules": "ext",
        })
        self.calls = [["state.show_lowstate"]] + [["state.show_sls", s] for s in self.sls]

    def write(self, name, data):
        with open(os.path.join(self.dir, name), "w") as f:
            json.dump(data, f)

    def files(self, own):
        for path in glob.glob(os.path.join(own, "*", "**", "*.sls"), recursive=True):
            name = os.path.relpath(path, own)[: -len(".sls")].replace("/", ".")
            if not re.match(r"(test|docs|bin|_)", name) and "files" not in name.split("."):
                yield re.sub(r"\.init$", "", name)


def by_python(case):
    """What Python Salt answers, in this process."""
    import salt.client, salt.config, salt.utils.json

    opts = salt.config.minion_config(os.path.join(case.dir, "minion"))
    opts["config_dir"] = case.dir  # as the command line does
    caller = salt.client.Caller(mopts=opts)
    answers = []
    for call in case.calls:
        try:
            answer = caller.cmd(*call)
        except Exception as err:  # the command line prints it and ends
            answer = "exception: %s" % err
        answers.append(json.loads(salt.utils.json.dumps(answer)))
        if failed(answer) and "Pillar failed to render" in first_line(answer):
            break  # every other call would say the same
    return answers


def by_halite(halite, case, n):
    answers = []
    for call in case.calls[:n]:
        p = subprocess.run([halite, "salt-call", "--local", "-c", case.dir, "--out", "json", "-l", "quiet"] + call,
                           stdin=subprocess.DEVNULL, capture_output=True, text=True)
        try:
            answers.append(json.loads(p.stdout)["local"])
        except (ValueError, KeyError):
            answers.append("exception: %s" % (p.stderr or p.stdout).strip())
    return answers


def failed(answer):
    return isinstance(answer, str) or isinstance(answer, list) and bool(answer) and isinstance(answer[0], str)


def first_line(answer):
    text = answer if isinstance(answer, str) else answer[0]
    text = re.sub(r"^exception: Error running '[^']*': ", "exception: ", text.strip())  # salt-call's words around it
    return (text.splitlines() or [""])[0]


def timeless(v):
    """A value without the time of day that a formula put into it."""
    return re.sub(r"\d\d:\d\d:\d\d", "<time>", v) if isinstance(v, str) else v


def difference(want, got, path=""):
    """The first place where two answers differ, or nothing."""
    if type(want) is type(got) is dict:
        for k in list(want) + [k for k in got if k not in want]:
            if k not in got or k not in want:
                return "%s: key %r only %s" % (path, k, "in Salt's" if k in want else "in ours")
            if found := difference(want[k], got[k], "%s.%s" % (path, k)):
                return found
    elif type(want) is type(got) is list:
        for n, (a, b) in enumerate(zip(want, got)):
            if found := difference(a, b, "%s[%d]" % (path, n)):
                return found
        if len(want) != len(got):
            return "%s: %d members, ours %d" % (path, len(want), len(got))
    elif type(want) is not type(got) or timeless(want) != timeless(got):
        return "%s: %r, ours %r" % (path, want, got)
    return ""


def verdict(want, got):
    if failed(want) and failed(got):
        a, b = first_line(want), first_line(got)
        return ("fails on both", "") if a == b else ("fails with another text", "Salt: %s\n    ours: %s" % (a, b))
    if failed(want) or failed(got):
        return "fails on one", "%s fails: %s" % (("Salt", first_line(want)) if failed(want) else ("ours", first_line(got)))
    found = difference(want, got)
    return ("differs", found) if found else ("equal", "")


OVERLAY = """set -e
for d in etc usr var root home opt srv; do
    mkdir -p "$0/$d/upper" "$0/$d/work"
    mount -t overlay overlay -o "lowerdir=/$d,upperdir=$0/$d/upper,workdir=$0/$d/work" "/$d"
done
printf '#!/bin/sh\\nexit 101\\n' > /usr/sbin/policy-rc.d # packages start no services
chmod 755 /usr/sbin/policy-rc.d
set +e
"$@" > "$0/first" 2> "$0/first.err"
"$@" > "$0/second" 2> "$0/second.err"
exit 0 # failed states are in the return
"""
UNSEEN = re.compile(r"(var/(cache|log|lib/(apt|dpkg|systemd|salt))|usr/sbin/policy-rc\.d)(/|$)|.*/__pycache__|etc/ld\.so\.cache|.*\.dpkg-(old|new)$|etc/(passwd|group|shadow|gshadow|subuid|subgid)-$")


def apply_twice(command, case):
    """The two returns of state.apply, and what it left in the system's directories."""
    side = tempfile.mkdtemp(dir=case.dir)
    subprocess.run(["unshare", "--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child", "--mount-proc", "sh", "-c", OVERLAY, side] + command
                   + ["--local", "-c", case.dir, "--out", "json", "-l", "error", "state.apply"], stdin=subprocess.DEVNULL, check=True)
    runs = []
    for name in "first", "second":
        try:
            runs.append(json.load(open(os.path.join(side, name)))["local"])
        except (ValueError, KeyError):
            runs.append("exception: %s" % open(os.path.join(side, name + ".err")).read())
    for run in runs:
        for ret in run.values() if isinstance(run, dict) else ():
            for key in "duration", "start_time":
                ret.pop(key, None)
            if isinstance(ret["changes"], dict):
                ret["changes"].pop("pid", None)
            if isinstance(ret["comment"], str) and "Traceback" in ret["comment"]:
                ret["comment"] = re.sub(r"(?m)^ .*\n", "", ret["comment"])  # whose program, which line
    return runs, dict(left_behind(side))


def left_behind(side):
    for upper in glob.glob(side + "/*/upper"):
        top = os.path.basename(os.path.dirname(upper))
        for here, dirs, files in os.walk(upper):
            for name in dirs + files:
                path = os.path.join(here, name)
                shown = os.path.normpath(os.path.join(top, os.path.relpath(path, upper)))
                st = os.lstat(path)
                if UNSEEN.match(shown):
                    continue
                if stat.S_ISCHR(st.st_mode):
                    yield shown, "removed"
                    continue
                what = oct(st.st_mode) + " %d:%d" % (st.st_uid, st.st_gid)
                if stat.S_ISREG(st.st_mode):
                    what += " " + hashlib.sha256(open(path, "rb").read()).hexdigest()
                elif stat.S_ISLNK(st.st_mode):
                    what += " " + os.readlink(path)
                yield shown, what


def compare_applied(halite, case):
    """One row of the table, and whether anything differs."""
    wants, files = apply_twice([os.path.join(os.path.dirname(sys.executable), "salt-call")], case)
    gots, ours = apply_twice([halite, "salt-call"], case)
    found = []
    if failed(wants[0]) or failed(gots[0]):
        kind, text = verdict(wants[0], gots[0])
        found.append((kind, text))
    else:
        for key in sorted(set(wants[0]) | set(gots[0])):
            if text := difference(wants[0].get(key), gots[0].get(key)):
                found.append(("first run: " + key, text))
        for key, ret in gots[1].items():
            if ret["changes"]:
                again = wants[1].get(key, {}).get("changes")
                found.append(("second run changes: " + key, "%s; Salt's second run: %s" % (json.dumps(ret["changes"])[:200], json.dumps(again)[:200])))
    for path in sorted(set(files) | set(ours)):
        if files.get(path) != ours.get(path):
            found.append(("file /" + path, "%s, ours %s" % (files.get(path), ours.get(path))))
    for what, text in found:
        print("%s|%s %s\n    %s" % (case.name, case.pillar, what, text[:2000]), flush=True)
    rets = gots[0].values() if isinstance(gots[0], dict) else []
    again = [r for r in (gots[1].values() if isinstance(gots[1], dict) else []) if r["changes"]]
    print("| %s | %s | %d | %d | %d | %d | %d |" % (case.name, case.pillar, len(rets), sum(r["result"] is False for r in rets),
          sum(bool(r["changes"]) for r in rets), len(ours), len(again)), flush=True)
    return bool(found)


def compare_compiled(halite, case, system, kept, counts):
    key = "%s|%s|%s" % (case.name, case.pillar, system)
    if key not in kept:
        kept[key] = by_python(case)
    want = kept[key]
    got = by_halite(halite, case, len(want))
    counts.setdefault("chunks", []).append("fails" if failed(want[0]) else str(len(want[0])))
    different = False
    for call, x, y in zip(case.calls, want, got):
        kind, text = verdict(x, y)
        counts[kind] = counts.get(kind, 0) + 1
        if text:
            different = True
            print("%s %s\n  %s\n    %s" % (key, " ".join(call), kind, text), flush=True)
    return different


def pillars_of(own):
    found = glob.glob(own + "/pillar.example") + sorted(glob.glob(own + "/test/**/pillar/**/*.sls", recursive=True))
    return [f for f in found if os.path.basename(f) != "top.sls"] or [None]


def grains_of_this_box(work):
    import salt.client, salt.config

    opts = salt.config.minion_config(None)
    opts.update(file_client="local", id="formula", root_dir=work, cachedir=work, extension_modules=work)
    return salt.client.Caller(mopts=opts).cmd("grains.items")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--halite", default="./halite")
    p.add_argument("--os", default="Debian")
    p.add_argument("--keep")
    p.add_argument("--apply", action="store_true")
    p.add_argument("dir")
    p.add_argument("formula", nargs="*")
    a = p.parse_args()
    logging.disable(logging.CRITICAL)
    formulas, halite = os.path.realpath(a.dir), os.path.realpath(a.halite)
    kept = json.load(open(a.keep)) if a.keep and os.path.exists(a.keep) else {}
    work = tempfile.mkdtemp(prefix="formulas-")
    rows, different = [], False
    if a.apply:
        print("| formula | pillar | states | failed | changed | files | changed again |\n|" + " --- |" * 7)
    elif "grains" not in kept:
        kept["grains"] = grains_of_this_box(work)
    try:
        for formula in a.formula or sorted(os.path.basename(d) for d in glob.glob(os.path.join(formulas, "*-formula"))):
            name, pillar, apply = (formula.split(":") + ["", ""])[:3]
            apply = apply.split(",") if apply else []
            own = os.path.join(formulas, name)
            pillars = [os.path.join(own, pillar)] if pillar else pillars_of(own)
            for system in ["this box"] if a.apply else a.os.split(","):
                counts = {}
                for pillar in pillars:
                    grains = {} if a.apply else {**kept["grains"], **SYSTEMS[system]}
                    case = Case(work, formulas, name, pillar, apply, grains)
                    if a.apply:
                        different |= compare_applied(halite, case)
                    else:
                        different |= compare_compiled(halite, case, system, kept, counts)
                    shutil.rmtree(case.dir)
                rows.append((name, system, counts))
                if a.keep and not a.apply:
                    with open(a.keep + ".part", "w") as f:
                        json.dump(kept, f)
                    os.replace(a.keep + ".part", a.keep)
    finally:
        shutil.rmtree(work)
    if not a.apply:
        kinds = ["equal", "fails on both", "fails with another text", "fails on one", "differs"]
        print("\n| formula | system | low chunks | " + " | ".join(kinds) + " |\n|" + " --- |" * (len(kinds) + 3))
        for name, system, counts in rows:
            print("| %s | %s | %s | %s |" % (name, system, ", ".join(counts["chunks"]), " | ".join(str(counts.get(k, 0)) for k in kinds)))
    sys.exit(different)


main()
