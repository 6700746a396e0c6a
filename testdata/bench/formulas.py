"""Compiles public formulas with Python Salt and with Halite, and compares.

    VENV/bin/python testdata/bench/formulas.py --halite ./halite [--os NAME,...] [--keep FILE] DIR [FORMULA...]

VENV is a virtual environment of Python Salt, DIR holds checkouts of formulas
(DIR/openssh-formula, ...). Every formula is compiled with its pillar.example and
with each pillar of its test directory, for each system named: the low data of
its init.sls by state.show_lowstate, the high data of each of its SLS files by
state.show_sls. Both sides get the grains that Python Salt finds on this box,
those of the system laid over them. --keep stores what Python Salt answered, so
that a second run takes it from there. Prints a line for each difference, then
a table; the exit code is 1 if anything differs.
"""
import argparse, glob, json, logging, os, re, shutil, subprocess, sys, tempfile

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

    def __init__(self, work, formulas, name, pillar, system, grains):
        self.key = "%s|%s|%s" % (name, os.path.relpath(pillar, formulas) if pillar else "no pillar", system)
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
        self.write("top/top.sls", {"base": {"*": [self.main]}})
        self.write("pillar/top.sls", {"base": {"*": ["formula"] if pillar else []}})
        if pillar:
            shutil.copy(pillar, os.path.join(pillars, "formula.sls"))
        self.write("minion", {
            "id": "formula", "file_client": "local", "root_dir": self.dir, "cachedir": "cache", "log_file": "log", "pki_dir": "pki",
            "sock_dir": "run", "log_level_logfile": "quiet", "file_roots": {"base": [top, own] + others},
            "pillar_roots": {"base": [pillars]}, "grains": {**grains, **SYSTEMS[system]}, "extension_modules": "ext",
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
    elif want != got or type(want) is not type(got):
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


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--halite", default="./halite")
    p.add_argument("--os", default="Debian")
    p.add_argument("--keep")
    p.add_argument("dir")
    p.add_argument("formula", nargs="*")
    a = p.parse_args()
    logging.disable(logging.CRITICAL)
    formulas, halite = os.path.realpath(a.dir), os.path.realpath(a.halite)
    kept = json.load(open(a.keep)) if a.keep and os.path.exists(a.keep) else {}
    work = tempfile.mkdtemp(prefix="formulas-")
    os.mkdir(os.path.join(work, "pillar"))
    if "grains" not in kept:
        import salt.client, salt.config
        opts = salt.config.minion_config(None)
        opts.update(file_client="local", id="formula", root_dir=work, cachedir=work, extension_modules=work)
        kept["grains"] = salt.client.Caller(mopts=opts).cmd("grains.items")
    rows, different = [], False
    try:
        for name in a.formula or sorted(os.path.basename(d) for d in glob.glob(os.path.join(formulas, "*-formula"))):
            own = os.path.join(formulas, name)
            pillars = [f for f in glob.glob(own + "/pillar.example") + sorted(glob.glob(own + "/test/**/pillar/**/*.sls", recursive=True))
                       if os.path.basename(f) != "top.sls"]
            for system in a.os.split(","):
                counts = {}
                for pillar in pillars or [None]:
                    case = Case(work, formulas, name, pillar, system, kept["grains"])
                    if case.key not in kept:
                        kept[case.key] = by_python(case)
                    want = kept[case.key]
                    got = by_halite(halite, case, len(want))
                    chunks = "fails" if failed(want[0]) else len(want[0])
                    counts.setdefault("chunks", []).append(str(chunks))
                    for call, x, y in zip(case.calls, want, got):
                        kind, text = verdict(x, y)
                        counts[kind] = counts.get(kind, 0) + 1
                        if text:
                            different = True
                            print("%s %s\n  %s\n    %s" % (case.key, " ".join(call), kind, text), flush=True)
                    shutil.rmtree(case.dir)
                rows.append((name, system, counts))
                if a.keep:
                    with open(a.keep + ".part", "w") as f:
                        json.dump(kept, f)
                    os.replace(a.keep + ".part", a.keep)
    finally:
        shutil.rmtree(work)
    kinds = ["equal", "fails on both", "fails with another text", "fails on one", "differs"]
    print("\n| formula | system | low chunks | " + " | ".join(kinds) + " |\n|" + " --- |" * (len(kinds) + 3))
    for name, system, counts in rows:
        print("| %s | %s | %s | %s |" % (name, system, ", ".join(counts["chunks"]), " | ".join(str(counts.get(k, 0)) for k in kinds)))
    sys.exit(different)


main()
