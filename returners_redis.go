// Returner redis: jobs and returns in a Redis server, with the keys of Salt.
//
// The law of this file: the few commands that are needed go over one plain
// connection in Redis' own protocol; there is no client library. Whatever a
// server sends is read with limits.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
)

// redisMaxReply bounds a text of the server.
const redisMaxReply = 512 << 20

func redisReturner() Returner {
	return Returner{
		doc: "Keep jobs and returns in a Redis server.\n\nredis.host, redis.port: the server, localhost and 6379 by default\nredis.unix_socket_path: its socket instead\nredis.db: number of the database\nredis.password: its password",
		Return: func(ctx context.Context, env *Env, ret *Map, _ io.Writer) error {
			minion, jid, key := ret.Str("id"), ret.Str("jid"), "ret:"+ret.Str("jid")
			ttl := redisTTL(env)
			_, err := redisDo(ctx, env, ret, [][]string{
				{"HSET", key, minion, returnJSON(ret)},
				{"EXPIRE", key, ttl},
				{"SET", minion + ":" + Str(ret.Value("fun")), jid, "EX", ttl},
				{"SADD", "minions", minion},
			})
			return err
		},
		SaveLoad: func(ctx context.Context, env *Env, jid string, load *Map) error {
			_, err := redisDo(ctx, env, nil, [][]string{{"SETEX", "load:" + jid, redisTTL(env), returnJSON(load)}})
			return err
		},
		Job: redisJob,
	}
}

func redisTTL(env *Env) string { return strconv.Itoa(int(keepJobs(env.Opts).Seconds())) }

func redisJob(ctx context.Context, env *Env, jid string) (load, returns *Map, err error) {
	replies, err := redisDo(ctx, env, nil, [][]string{{"GET", "load:" + jid}, {"HGETALL", "ret:" + jid}})
	if err != nil {
		return nil, nil, err
	}
	returns = NewMap()
	fields, _ := replies[1].([]any)
	for i := 0; i+1 < len(fields); i += 2 {
		text, _ := fields[i+1].(string)
		if v, err := DecodeJSON([]byte(text)); err == nil {
			returns.Set(Str(fields[i]), v)
		}
	}
	if text, ok := replies[0].(string); ok {
		v, err := DecodeJSON([]byte(text))
		if err != nil {
			return nil, nil, fmt.Errorf("redis: the load of job %s: %w", jid, err)
		}
		load, _ = v.(*Map)
	}
	return load, returns, nil
}

// redisDo sends commands in one go and returns their answers.
func redisDo(ctx context.Context, env *Env, ret *Map, commands [][]string) ([]any, error) {
	o := returnerOptions(env, "redis", ret, "host", "port", "unix_socket_path", "db", "password", "cluster_mode")
	if Truth(o.Value("cluster_mode")) {
		return nil, errors.New("redis.cluster_mode is not supported: name one server that holds all keys")
	}
	network, addr := "tcp", net.JoinHostPort(optionOr(o, "host", "localhost"), optionOr(o, "port", "6379"))
	if path := optionOr(o, "unix_socket_path", ""); path != "" {
		network, addr = "unix", path
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, fmt.Errorf("connect to redis: %w", err)
	}
	defer conn.Close()
	if t, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(t)
	}
	var first [][]string
	if p := optionOr(o, "password", ""); p != "" {
		first = append(first, []string{"AUTH", p})
	}
	if db := optionOr(o, "db", "0"); db != "0" {
		first = append(first, []string{"SELECT", db})
	}
	all := append(first, commands...)
	var out []byte
	for _, words := range all {
		out = fmt.Appendf(out, "*%d\r\n", len(words))
		for _, w := range words {
			out = fmt.Appendf(out, "$%d\r\n", len(w))
			out = append(append(out, w...), '\r', '\n')
		}
	}
	// A server that answers while we write must not block us both.
	wrote := make(chan error, 1)
	go func() {
		_, err := conn.Write(out)
		wrote <- err
	}()
	r := bufio.NewReader(conn)
	var replies []any
	for _, words := range all {
		v, err := redisReply(r, 0)
		if err != nil {
			conn.Close()
			<-wrote
			return nil, fmt.Errorf("redis: %s: %w", words[0], err)
		}
		replies = append(replies, v)
	}
	if err := <-wrote; err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	return replies[len(first):], nil
}

// redisReply reads one answer: string, int64, nil or []any.
func redisReply(r *bufio.Reader, depth int) (any, error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	text := strings.TrimSuffix(strings.TrimSuffix(string(line), "\n"), "\r")
	if text == "" {
		return nil, errors.New("an empty answer")
	}
	kind, text := text[0], text[1:]
	switch kind {
	case '+':
		return text, nil
	case '-':
		return nil, errors.New(text)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("an unreadable answer %q", text)
	}
	switch {
	case kind == ':':
		return n, nil
	case n < 0 && (kind == '$' || kind == '*'):
		return nil, nil
	case kind == '$' && n <= redisMaxReply:
		var b strings.Builder
		if _, err := io.CopyN(&b, r, n+2); err != nil {
			return nil, err
		}
		return b.String()[:n], nil
	case kind == '*' && n <= 1<<24 && depth < 4:
		var list []any
		for range n {
			v, err := redisReply(r, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	}
	return nil, fmt.Errorf("an answer of unknown kind %q", string(kind)+text)
}
