// Module config: reading the minion's configuration, and configLookup, which
// other modules use for options that may also stand in grains or pillar.
package main

import (
	"context"
	"net/url"
	"strings"
)

func configModule() Module {
	return Module{
		Doc: "Read the configuration of this minion.",
		Funcs: Funcs{
			"get":                     {run: configGet, doc: "Return a value of the options, the grains, the pillar, the master's options or the\ndefaults, in this order; paths like a:b go into nested ones. With merge=recurse or\nmerge=overwrite what all of them have is merged.\n\nCLI Example:\n\n    salt '*' config.get pkg:apache"},
			"option":                  {run: configOption, doc: "Return one option, of the options, grains, pillar, master's options or defaults; with\nwildcard all that match."},
			"merge":                   {run: configMerge, doc: "Return one option merged from the options, the master's options and the pillar."},
			"items":                   {run: configItems, doc: "Return all options."},
			"dot_vals":                {run: configDotVals, doc: "Return all options whose names begin with value and a dot."},
			"backup_mode":             {run: configBackupMode, doc: "Return the backup mode: the argument, or the option backup_mode."},
			"manage_mode":             {run: configManageMode, doc: "Return a file mode as text of at least four digits."},
			"valid_fileproto":         {run: configValidFileproto, doc: "Say whether a URL has a scheme that file states can fetch."},
			"gather_bootstrap_script": {run: configGatherBootstrap, doc: "Refused: this minion installs no others."},
		},
	}
}

// configDefaults are the options that modules have besides those of the minion.
func configDefaults() *Map {
	return NewMap(
		"mongo.db", "salt", "mongo.password", "", "mongo.port", int64(27017), "mongo.user", "",
		"redis.db", "0", "redis.host", "salt", "redis.port", int64(6379),
		"test.foo", "unconfigured", "ca.cert_base_path", "/etc/pki",
		"solr.cores", &List{}, "solr.host", "localhost", "solr.port", "8983", "solr.baseurl", "/solr", "solr.type", "master",
		"solr.request_timeout", nil, "solr.init_script", "/etc/rc.d/solr",
		"solr.dih.import_options", NewMap("clean", false, "optimize", true, "commit", true, "verbose", false),
		"solr.backup_path", nil, "solr.num_backups", int64(1),
		"poudriere.config", "/usr/local/etc/poudriere.conf", "poudriere.config_dir", "/usr/local/etc/poudriere.d",
		"ldap.uri", "", "ldap.server", "localhost", "ldap.port", "389", "ldap.tls", false, "ldap.no_verify", false,
		"ldap.anonymous", true, "ldap.scope", int64(2), "ldap.attrs", nil, "ldap.binddn", "", "ldap.bindpw", "",
		"hosts.file", "/etc/hosts", "aliases.file", "/etc/aliases",
		"virt", NewMap("tunnel", false, "images", "/srv/salt-images"),
		"docker.exec_driver", "docker-exec",
		"docker.compare_container_networks", NewMap("static", NewList("Aliases", "Links", "IPAMConfig"),
			"automatic", NewList("IPAddress", "Gateway", "GlobalIPv6Address", "IPv6Gateway")),
	)
}

// masterOptions are the options that a master sends with the pillar.
func masterOptions(c *Call) *Map {
	if m := c.Pillar.Map("master"); m != nil {
		return m
	}
	return &Map{}
}

// configLookup finds an option as config.get does with a plain name: in the
// options, the grains, the pillar and the master's options, in this order.
func configLookup(c *Call, name string) (any, bool) {
	for _, m := range []*Map{c.Opts.All(), c.Grains, c.Pillar, masterOptions(c)} {
		if v, ok := m.Get(name); ok {
			return v, true
		}
	}
	return nil, false
}

type configGetArgs struct {
	Key        string
	Default    any    `def:"''"`
	Delimiter  string `def:"':'"`
	Merge      any    `def:"None"`
	OmitOpts   bool   `def:"False"`
	OmitPillar bool   `def:"False"`
	OmitMaster bool   `def:"False"`
	OmitGrains bool   `def:"False"`
}

func configGet(_ context.Context, c *Call, a configGetArgs) (any, error) {
	if a.Merge != nil {
		how := Str(a.Merge)
		if how != "recurse" && how != "overwrite" {
			c.Log.Warn("Unsupported merge strategy '" + how + "'. Falling back to 'recurse'.")
		}
		data := configDefaults()
		lists := c.Opts.Bool("pillar_merge_lists")
		for _, m := range []*Map{masterOptions(c), c.Pillar, c.Grains, c.Opts.All()} {
			m = DeepCopy(m).(*Map)
			if how == "overwrite" {
				data.Merge(m)
				continue
			}
			UpdateMap(data, m, lists)
		}
		if v, ok := TraversePath(data, a.Key, a.Delimiter); ok {
			return v, nil
		}
		return a.Default, nil
	}
	for _, s := range []struct {
		omit bool
		data *Map
	}{{a.OmitOpts, c.Opts.All()}, {a.OmitGrains, c.Grains}, {a.OmitPillar, c.Pillar}, {a.OmitMaster, masterOptions(c)}, {false, configDefaults()}} {
		if s.omit || s.data == nil {
			continue
		}
		if v, ok := TraversePath(s.data, a.Key, a.Delimiter); ok {
			if s.data == c.Grains || s.data == c.Pillar {
				return c.lend(v), nil
			}
			return DeepCopy(v), nil
		}
	}
	return a.Default, nil
}

type configOptionArgs struct {
	Value      string
	Default    any  `def:"None"`
	OmitOpts   bool `def:"False"`
	OmitGrains bool `def:"False"`
	OmitPillar bool `def:"False"`
	OmitMaster bool `def:"False"`
	OmitAll    bool `def:"False"`
	Wildcard   bool `def:"False"`
}

func configOption(_ context.Context, c *Call, a configOptionArgs) (any, error) {
	if a.Default == nil {
		a.Default = ""
		if a.Wildcard {
			a.Default = &Map{}
		}
	}
	type source struct {
		omit bool
		data *Map
	}
	sources := []source{{a.OmitOpts, c.Opts.All()}, {a.OmitGrains, c.Grains}, {a.OmitPillar, c.Pillar}, {a.OmitMaster, masterOptions(c)}}
	if a.OmitAll {
		sources = nil
	}
	if !a.Wildcard {
		for _, s := range sources {
			if v, ok := s.data.Get(a.Value); ok && !s.omit {
				return DeepCopy(v), nil
			}
		}
		if v, ok := configDefaults().Get(a.Value); ok {
			return v, nil
		}
		return a.Default, nil
	}
	out := &Map{}
	for i := len(sources) - 1; i >= 0; i-- {
		if sources[i].omit {
			continue
		}
		for k, v := range sources[i].data.All() {
			if GlobMatch(a.Value, Str(k)) {
				out.Set(k, DeepCopy(v))
			}
		}
	}
	for k, v := range configDefaults().All() {
		if GlobMatch(a.Value, Str(k)) && !out.Has(k) {
			out.Set(k, v)
		}
	}
	if out.Len() == 0 {
		return a.Default, nil
	}
	return out, nil
}

type configMergeArgs struct {
	Value      string
	Default    any  `def:"''"`
	OmitOpts   bool `def:"False"`
	OmitMaster bool `def:"False"`
	OmitPillar bool `def:"False"`
}

func configMerge(_ context.Context, c *Call, a configMergeArgs) (any, error) {
	var ret any
	for _, s := range []struct {
		omit bool
		data *Map
	}{{a.OmitOpts, c.Opts.All()}, {a.OmitMaster, masterOptions(c)}, {a.OmitPillar, c.Pillar}} {
		v, ok := s.data.Get(a.Value)
		if s.omit || !ok {
			continue
		}
		v = DeepCopy(v)
		switch have := ret.(type) {
		case nil:
			if ret = v; TypeName(v) == "str" {
				return v, nil
			}
		case *Map:
			if m, ok := v.(*Map); ok {
				m.Merge(have)
				ret = m
			}
		case *List:
			if l, ok := v.(*List); ok {
				ret = NewList(append(append([]any{}, have.Items...), l.Items...)...)
			}
		}
	}
	if ret != nil {
		return ret, nil
	}
	if v, ok := configDefaults().Get(a.Value); ok {
		return v, nil
	}
	return a.Default, nil
}

func configItems(_ context.Context, c *Call, _ noArgs) (any, error) {
	return DeepCopy(c.Opts.All()), nil
}

type configValueArgs struct{ Value string }

func configDotVals(_ context.Context, c *Call, a configValueArgs) (any, error) {
	out := &Map{}
	for _, m := range []*Map{masterOptions(c), c.Opts.All()} {
		for k, v := range m.All() {
			if strings.HasPrefix(Str(k), a.Value+".") {
				out.Set(k, DeepCopy(v))
			}
		}
	}
	return out, nil
}

type configBackupArgs struct {
	Backup any `def:"''"`
}

func configBackupMode(ctx context.Context, c *Call, a configBackupArgs) (any, error) {
	if Truth(a.Backup) {
		return a.Backup, nil
	}
	return configOption(ctx, c, configOptionArgs{Value: "backup_mode"})
}

type modeArgs struct{ Mode any }

func configManageMode(_ context.Context, _ *Call, a modeArgs) (any, error) {
	return normalizeMode(a.Mode), nil
}

// normalizeMode brings a file mode to Salt's form: text of four digits; None
// stays None.
func normalizeMode(mode any) any {
	if mode == nil {
		return nil
	}
	text := strings.Trim(strings.ReplaceAll(Str(mode), "0o", "0"), "\"")
	text = strings.Trim(text, "'")
	text = strings.TrimLeft(text, "0")
	if len(text) < 3 {
		text = strings.Repeat("0", 3-len(text)) + text
	}
	if len(text) == 3 {
		text = "0" + text
	}
	return text
}

type uriArgs struct{ URI string }

func configValidFileproto(_ context.Context, _ *Call, a uriArgs) (any, error) {
	u, err := url.Parse(a.URI)
	if err != nil {
		return false, nil
	}
	switch u.Scheme {
	case "salt", "http", "https", "ftp", "swift", "s3":
		return true, nil
	}
	return false, nil
}

type bootstrapArgs struct {
	Bootstrap any `def:"None"`
}

func configGatherBootstrap(context.Context, *Call, bootstrapArgs) (any, error) {
	return NewList(false, "config.gather_bootstrap_script is unavailable"), nil
}
