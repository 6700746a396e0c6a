// Returner pgjsonb: jobs, returns and events in PostgreSQL, in Salt's tables.
package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

func pgjsonbReturner() Returner {
	return Returner{
		doc: "Keep jobs, returns and events in the tables jids, salt_returns and salt_events of PostgreSQL.\n\nreturner.pgjsonb.host, port, user, pass, db: localhost, 5432, and salt by default\nreturner.pgjsonb.connect_timeout: seconds\nreturner.pgjsonb.sslmode, sslcert, sslkey, sslrootcert: as of libpq",
		Return: func(ctx context.Context, env *Env, ret *Map, _ io.Writer) error {
			return withPostgres(ctx, env, ret, func(p *pgConn) error {
				fun := Str(ret.Value("fun"))
				if l, ok := ret.Value("fun").(*List); ok {
					fun = strings.Join(toStrings(l), ",")
				}
				if r := []rune(fun); len(r) > 50 {
					fun = string(r[:50]) // the width of the column
				}
				_, err := p.Exec("INSERT INTO salt_returns (fun, jid, return, id, success, full_ret, alter_time) "+
					"VALUES ($1, $2, $3::jsonb, $4, $5, $6::jsonb, to_timestamp($7::double precision))",
					fun, ret.Str("jid"), jsonbText(ret.Value("return")), ret.Str("id"), pgBool(ret.Value("success")), jsonbText(ret), pgNow())
				return err
			})
		},
		SaveLoad: func(ctx context.Context, env *Env, jid string, load *Map) error {
			return withPostgres(ctx, env, nil, func(p *pgConn) error {
				_, err := p.Exec("INSERT INTO jids (jid, load) VALUES ($1, $2::jsonb) ON CONFLICT (jid) DO UPDATE SET load = EXCLUDED.load",
					jid, jsonbText(load))
				return err
			})
		},
		Job:   pgjsonbJob,
		Clean: pgjsonbClean,
		Events: func(ctx context.Context, env *Env, events []*Map, _ io.Writer) error {
			return withPostgres(ctx, env, nil, func(p *pgConn) error {
				for _, e := range events {
					if _, err := p.Exec("INSERT INTO salt_events (tag, data, master_id, alter_time) "+
						"VALUES ($1, $2::jsonb, $3, to_timestamp($4::double precision))",
						e.Str("tag"), jsonbText(e.Value("data")), env.Opts.Str("id"), pgNow()); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
}

func pgNow() string { return strconv.FormatFloat(unixFloat(time.Now()), 'f', 6, 64) }

func pgBool(v any) string {
	if Truth(v) {
		return "true"
	}
	return "false"
}

// jsonbText is a value as jsonb takes it: its texts cannot hold the character
// with the number 0, which becomes the replacement character.
func jsonbText(v any) string {
	text := EncodeJSON(v, JSONOptions{Indent: -1, EnsureASCII: true})
	if !strings.Contains(text, `\u0000`) {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] != '\\':
			b.WriteByte(text[i])
		case strings.HasPrefix(text[i:], `\u0000`):
			b.WriteString(`\ufffd`)
			i += 5
		default:
			b.WriteString(text[i : i+2])
			i++
		}
	}
	return b.String()
}

// withPostgres lends a connection for one use.
func withPostgres(ctx context.Context, env *Env, ret *Map, use func(*pgConn) error) error {
	o := returnerOptions(env, "returner.pgjsonb", ret, "host", "port", "user", "pass", "db", "connect_timeout",
		"sslmode", "sslcert", "sslkey", "sslrootcert", "sslcrl")
	if o.Has("sslcrl") {
		return fmt.Errorf("returner.pgjsonb.sslcrl is not supported")
	}
	dctx := ctx
	if d := seconds(o.Value("connect_timeout")); d > 0 {
		var cancel context.CancelFunc
		dctx, cancel = context.WithTimeout(ctx, d)
		defer cancel()
	}
	p, err := dialPostgres(dctx, pgConfig{
		Host: optionOr(o, "host", "localhost"), Port: optionOr(o, "port", "5432"), User: optionOr(o, "user", "salt"),
		Password: optionOr(o, "pass", "salt"), Database: optionOr(o, "db", "salt"),
		SSLMode: optionOr(o, "sslmode", ""), SSLCert: optionOr(o, "sslcert", ""), SSLKey: optionOr(o, "sslkey", ""),
		SSLRootCert: optionOr(o, "sslrootcert", ""),
	})
	if err != nil {
		return fmt.Errorf("connect to the database: %w", err)
	}
	defer p.Close()
	if t, ok := ctx.Deadline(); ok {
		_ = p.conn.SetDeadline(t)
	}
	return use(p)
}

func pgjsonbJob(ctx context.Context, env *Env, jid string) (load, returns *Map, err error) {
	returns = NewMap()
	err = withPostgres(ctx, env, nil, func(p *pgConn) error {
		rows, err := p.Exec("SELECT load FROM jids WHERE jid = $1", jid)
		if err != nil {
			return err
		}
		for _, row := range rows {
			v, err := DecodeJSON([]byte(Str(row[0])))
			if err != nil {
				return err
			}
			load, _ = v.(*Map)
		}
		if rows, err = p.Exec("SELECT id, full_ret FROM salt_returns WHERE jid = $1 ORDER BY alter_time", jid); err != nil {
			return err
		}
		for _, row := range rows {
			v, err := DecodeJSON([]byte(Str(row[1])))
			if err != nil {
				return err
			}
			returns.Set(Str(row[0]), v)
		}
		return nil
	})
	return load, returns, err
}

// pgjsonbClean removes rows that are older than keep_jobs_seconds; with
// archive_jobs they go to tables of the same names with _archive first. A job goes
// when all its returns are old.
func pgjsonbClean(ctx context.Context, env *Env) error {
	keep := keepJobs(env.Opts)
	if keep <= 0 {
		return nil
	}
	before := strconv.FormatFloat(unixFloat(time.Now().Add(-keep)), 'f', 6, 64)
	const (
		oldRows = " WHERE alter_time < to_timestamp($1::double precision)"
		oldJobs = " WHERE EXISTS (SELECT 1 FROM salt_returns r WHERE r.jid = jids.jid) AND NOT EXISTS " +
			"(SELECT 1 FROM salt_returns r WHERE r.jid = jids.jid AND r.alter_time >= to_timestamp($1::double precision))"
	)
	return withPostgres(ctx, env, nil, func(p *pgConn) (err error) {
		if _, err = p.Exec("BEGIN"); err != nil {
			return err
		}
		defer func() {
			if err != nil {
				_, _ = p.Exec("ROLLBACK")
			}
		}()
		for _, part := range []struct{ table, old string }{{"jids", oldJobs}, {"salt_returns", oldRows}, {"salt_events", oldRows}} {
			if env.Opts.Bool("archive_jobs") {
				if _, err = p.Exec("CREATE TABLE IF NOT EXISTS " + part.table + "_archive (LIKE " + part.table + ")"); err != nil {
					return err
				}
				if _, err = p.Exec("INSERT INTO "+part.table+"_archive SELECT * FROM "+part.table+part.old, before); err != nil {
					return err
				}
			}
			if _, err = p.Exec("DELETE FROM "+part.table+part.old, before); err != nil {
				return err
			}
		}
		_, err = p.Exec("COMMIT")
		return err
	})
}
