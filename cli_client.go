// The local client: it publishes jobs through the master of this machine and
// follows their returns on the master's event bus. Behind `salt`, `salt-cp` and
// the runners that address minions; the master may be ours or Salt's own.
//
// The law of this room: the subscription comes before the publication, so no
// return is missed; before a minion is called silent the job cache is asked; a
// wait ends for certain, whatever a minion or the master does; the texts are
// those that scripts match on.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Texts of the client that Salt's users and their scripts know.
const (
	textNoMinions = "No minions matched the target. No command was sent, no jid was assigned."
	textNoMaster  = "The salt master could not be contacted. Is master running?"
	textBusy      = "Salt request timed out. The master is not responding. You may need to run your command with `--async` " +
		"in order to bypass the congested event bus. With `--async`, the CLI tool will print the job id (jid) and exit immediately " +
		"without listening for responses. You can then use `salt-run jobs.lookup_jid` to look up the results of the job in the " +
		"job cache later."
)

// publishTimeout bounds one request to the master.
const publishTimeout = 30 * time.Second

// ClientError is an error whose text goes to the user as it is. Name is Salt's
// name of the exception.
type ClientError struct {
	Name string
	Msg  string
	Err  error // the cause, for the log
}

func (e *ClientError) Error() string { return e.Msg }
func (e *ClientError) Unwrap() error { return e.Err }

// ErrNoMinions says that a target matched nothing, so that there is no job.
var ErrNoMinions = errors.New(textNoMinions)

// PublishAuth say who publishes; the local key comes with the client.
type PublishAuth struct {
	Token  string
	Eauth  string
	Fields *Map // username, password … of the eauth module
}

// addTo puts the credentials where publications carry them.
func (c PublishAuth) addTo(m *Map) {
	if c.Token != "" {
		m.Set("token", c.Token)
		return
	}
	if c.Eauth != "" {
		m.Merge(c.Fields)
		m.Set("eauth", c.Eauth)
	}
}

// LocalClient is safe for concurrent use.
type LocalClient struct {
	opts *Options
	log  *slog.Logger
	cred PublishAuth
	user string
	key  string
	pool *minionPool
	jobs jobReader

	mu  sync.Mutex
	bus *BusClient
	req *Requester
}

// NewLocalClient makes a client over the master's configuration. Nothing is
// connected before it is needed.
func NewLocalClient(o *Options, cred PublishAuth, log *slog.Logger) *LocalClient {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	c := &LocalClient{opts: o, log: log, cred: cred, user: publishingUser(), pool: newMinionPool(o), jobs: newJobReader(o)}
	c.key = readPublishKey(o, c.user)
	return c
}

// Close ends the client's connections.
func (c *LocalClient) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bus != nil {
		c.bus.Close()
		c.bus = nil
	}
	if c.req != nil {
		c.req.Close()
		c.req = nil
	}
}

// publishingUser is who the master notes as the one who published.
func publishingUser() string {
	name := ""
	if u, err := user.Current(); err == nil {
		name = u.Username
	} else if os.Geteuid() == 0 {
		name = "root"
	} else {
		name = strconv.Itoa(os.Geteuid())
	}
	if sudo, ok := os.LookupEnv("SUDO_USER"); ok && name == "root" {
		return "sudo_" + sudo
	}
	return name
}

// readPublishKey reads the key that lets a local user publish; "" if the user
// has none.
func readPublishKey(o *Options, who string) string {
	if who == "root" || strings.HasPrefix(who, "sudo_") {
		if who = o.Str("user"); who == "" {
			who = "root"
		}
	}
	if strings.ContainsAny(who, "/\x00") {
		return ""
	}
	key, err := os.ReadFile(filepath.Join(o.Path("cachedir"), "."+who+"_key"))
	if err != nil {
		return ""
	}
	return string(key)
}

// openBus returns the bus, connecting if need be.
func (c *LocalClient) openBus(ctx context.Context) (*BusClient, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bus != nil {
		select {
		case <-c.bus.done:
			c.bus = nil
		default:
			return c.bus, nil
		}
	}
	b, err := DialBus(ctx, c.opts.Path("sock_dir"))
	if err != nil {
		return nil, err
	}
	c.bus = b
	return b, nil
}

// ask sends one clear request. It may be called again after any error.
func (c *LocalClient) ask(ctx context.Context, load *Map) (any, error) {
	p, err := ClearRequest(load)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.req == nil {
		addr := net.JoinHostPort(masterHost(c.opts), c.opts.Str("ret_port"))
		if c.req, err = DialRequester(ctx, addr, TransportOptions{Handshake: busDialTimeout}); err != nil {
			c.req = nil
			return nil, &ClientError{Name: "SaltClientError", Msg: textNoMaster, Err: err}
		}
	}
	answer, err := c.req.Request(ctx, p)
	if err != nil {
		c.req.Close()
		c.req = nil
		if errors.Is(err, context.DeadlineExceeded) {
			return nil, &ClientError{Name: "SaltReqTimeoutError", Msg: textBusy, Err: err}
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, &ClientError{Name: "SaltClientError", Msg: textNoMaster, Err: err}
	}
	return DecodeWire(answer)
}

func masterHost(o *Options) string {
	switch host := strings.Trim(o.Str("interface"), "[]"); host {
	case "", "0.0.0.0":
		return "127.0.0.1"
	case "::":
		return "::1"
	default:
		return host
	}
}

// JobRequest is a job to publish.
type JobRequest struct {
	Tgt       any // text, or *List of ids for list
	TgtType   string
	Fun       any // text, or *List of texts
	Arg       *List
	Ret       string
	JID       string
	Delimiter string
	Kwargs    *Map // further fields: metadata, module_executors …
}

// PublishedJob is the answer to a publication.
type PublishedJob struct {
	JID     string
	Minions []string // expected to answer
	Missing []string // named, but not known
	Owed    bool     // the master gives it to minions that are down when they come
	sub     *BusSubscription
}

// Close ends the subscription to the job's returns.
func (p *PublishedJob) Close() {
	if p != nil && p.sub != nil {
		p.sub.Close()
	}
}

// Publish sends a job. With listen the job's events are collected from before it
// is sent; the caller closes the result. ErrNoMinions: nothing was sent.
func (c *LocalClient) Publish(ctx context.Context, r JobRequest, listen bool) (*PublishedJob, error) {
	kind, tgt := r.TgtType, r.Tgt
	if kind == "" {
		kind = "glob"
	}
	if text, ok := tgt.(string); ok {
		var err error
		kind, tgt, err = c.expand(kind, text)
		if err != nil {
			return nil, err
		}
	}
	if !fileExists(filepath.Join(c.opts.Path("sock_dir"), "publish_pull.ipc")) {
		c.log.Error("Unable to connect to the salt master publisher at " + c.opts.Path("sock_dir"))
		return nil, &ClientError{Name: "SaltClientError", Msg: textNoMaster}
	}
	var sub *BusSubscription
	if listen {
		bus, err := c.openBus(ctx)
		if err != nil {
			return nil, &ClientError{Name: "SaltClientError", Msg: textNoMaster, Err: err}
		}
		// The job id is not known yet: jobs' tags, and bare job ids (2…).
		sub = bus.Subscribe("salt/job/", "2", "1")
	}
	kwargs := r.Kwargs.Clone()
	if r.Delimiter != "" {
		kwargs.Set("delimiter", r.Delimiter)
	}
	c.cred.addTo(kwargs)
	arg := r.Arg
	if arg == nil {
		arg = NewList()
	}
	load := NewMap("cmd", "publish", "tgt", tgt, "fun", r.Fun, "arg", arg, "key", c.key, "tgt_type", kind,
		"ret", r.Ret, "jid", r.JID, "kwargs", kwargs, "user", c.user)
	if c.opts.Bool("order_masters") {
		load.Set("to", int64(c.opts.Int("timeout")))
	}
	job, err := c.publish(ctx, load)
	if err != nil {
		if sub != nil {
			sub.Close()
		}
		return nil, err
	}
	if sub != nil {
		sub.Narrow("salt/job/"+job.JID+"/", job.JID)
		job.sub = sub
	}
	return job, nil
}

func (c *LocalClient) expand(kind, tgt string) (string, any, error) {
	newKind, newTgt, err := ExpandTarget(kind, tgt, c.opts.Map("nodegroups"))
	var unknown *UnknownNodegroupError
	switch {
	case errors.As(err, &unknown):
		return "", nil, &ClientError{Name: "SaltInvocationError",
			Msg: fmt.Sprintf("Node group %s unavailable in %s", unknown.Name, c.opts.Str("conf_file")), Err: err}
	case err != nil:
		return "", nil, &ClientError{Name: "SaltInvocationError", Msg: err.Error(), Err: err}
	}
	return newKind, newTgt, nil
}

func (c *LocalClient) publish(ctx context.Context, load *Map) (*PublishedJob, error) {
	v, err := c.ask(ctx, load)
	if err != nil {
		return nil, err
	}
	if !Truth(v) {
		// The master may have started anew with another key.
		if key := readPublishKey(c.opts, c.user); key != c.key {
			c.key = key
			load.Set("key", key)
			if v, err = c.ask(ctx, load); err != nil {
				return nil, err
			}
		}
	}
	m, ok := v.(*Map)
	if !ok {
		if text, isText := v.(string); isText && text != "" {
			return nil, &ClientError{Name: "PublishError", Msg: text}
		}
		return nil, &ClientError{Name: "EauthAuthenticationError", Msg: "Failed to authenticate! This is most likely because this user is not " +
			"permitted to execute commands, but there is a small possibility that a disk error occurred (check disk/inode usage)."}
	}
	if e, ok := m.Get("error"); ok {
		if detail, ok := e.(*Map); ok {
			return nil, &ClientError{Name: detail.Str("name"), Msg: detail.Str("message")}
		}
		return nil, &ClientError{Name: "PublishError", Msg: Str(e)}
	}
	answer := m.Map("load")
	job := &PublishedJob{JID: answer.Str("jid"), Owed: Truth(answer.Value("on_connect"))}
	for _, v := range toItems(answer.Value("minions")) {
		job.Minions = append(job.Minions, Str(v))
	}
	for _, v := range toItems(answer.Value("missing")) {
		job.Missing = append(job.Missing, Str(v))
	}
	if job.JID == "" || len(job.Minions) == 0 && !c.opts.Bool("order_masters") {
		return nil, ErrNoMinions
	}
	return job, nil
}
