"""The same figures as the Go benchmarks of the render room, by Python Salt.

Run with the python of a Salt installation:  python render.py DIR
where DIR is this folder. Prints nanoseconds for one run of each.
"""
import json, os, sys, time

import salt.config
import salt.utils.templates as templates
import salt.utils.yamlloader as yamlloader
import yaml

here = sys.argv[1]
vars_ = json.load(open(os.path.join(here, "vars.json")))
opts = salt.config.DEFAULT_MINION_OPTS.copy()


def jinja(text):
    context = dict(opts=opts, saltenv=None, sls="bench", salt={}, **json.loads(json.dumps(vars_)))
    return templates.render_jinja_tmpl(text, context, None)


class Pure(yaml.SafeLoader):
    pass


def measure(name, run, seconds=2.0):
    run()
    n, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        run()
        n += 1
    print("%s %d" % (name, (time.perf_counter() - start) / n * 1e9), flush=True)


mapfile = open(os.path.join(here, "map.jinja")).read()
loop = "{% set ns = namespace(sum=0) %}{% for i in range(100000) %}{% if i is even %}{% set ns.sum = ns.sum + i %}{% endif %}{{ i }}\n{% endfor %}{{ ns.sum }}"
document = "".join(
    "site-%d:\n  file.managed:\n    - name: /etc/sites/%d.conf\n    - user: root\n    - mode: 0644\n    - context: {port: %d, tls: yes, names: [a%d, b%d]}\n    - require:\n      - pkg: nginx\n" % (n, n, n, n, n)
    for n in range(5400)
)
assert abs(len(document) - 1_000_000) < 60_000, len(document)
measure("map", lambda: jinja(mapfile))
measure("loop", lambda: jinja(loop))
measure("yaml_pure", lambda: yaml.load(document, Loader=Pure), 10)
measure("yaml_salt", lambda: yamlloader.load(document, Loader=lambda *a: yamlloader.SaltYamlSafeLoader(*a)), 5)
