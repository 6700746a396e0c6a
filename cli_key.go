// salt-key: the keys of minions on the master's machine. It works on the key
// directory itself, so no master need run; one that runs hears of each change
// over its event bus. With external authentication it asks the master instead.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"time"
)

// keyBusTimeout bounds what an event may cost when the master is stuck.
const keyBusTimeout = 3 * time.Second

// keyCLI is one run of salt-key.
type keyCLI struct {
	p       *ParsedCLI
	std     Stdio
	opts    *Options
	display *Display
	keys    keyActions
	include KeyInclude
}

// keyActions is the key directory, or a master that is asked for it.
type keyActions interface {
	ListState(word string) (*Map, error)
	Match(pattern string, local bool) (*Map, error)
	Print(pattern string) (*Map, error)
	Fingers(pattern, hashType string) (*Map, error)
	Accept(matches *Map, include KeyInclude) (done, bad []string, err error)
	Reject(matches *Map, include KeyInclude) ([]string, error)
	Delete(matches *Map) ([]string, error)
}

func appletSaltKey(args []string, std Stdio) int {
	p, code, done := parseCLI("salt-key", args, std)
	if done {
		return code
	}
	if list := p.Str("list"); list != "" && !isKeyStateWord(list) {
		return p.UsageError(std, "%s is not a valid argument to '--list'", Repr(list))
	}
	if bits := p.Int("keysize"); bits < minKeyBits {
		return p.UsageError(std, "The minimum value for keysize is %d", minKeyBits)
	} else if bits > maxKeyBits {
		return p.UsageError(std, "The maximum value for keysize is %d", maxKeyBits)
	}
	o, code, done := p.LoadConfig(std)
	if done {
		return code
	}
	if p.Bool("delete_all") && len(p.Args) > 0 {
		fmt.Fprintln(std.Err, "Error: Delete all takes no arguments. Use -d to delete specified keys")
		return 0
	}
	// What is written must belong to the master's user, as the directory does.
	if err := switchUser(o.Str("user")); err != nil {
		fmt.Fprintf(std.Err, "Error: %s\n", oneLine(err.Error()))
		return exitConfig
	}
	bus := &keyBus{path: filepath.Join(o.Path("sock_dir"), "master_event_pull.ipc")}
	defer bus.Close()
	display, err := openDisplay(o, std, NewLogger(std.Err, o.Str("log_level")))
	if err != nil {
		fmt.Fprintf(std.Err, "Error: %s\n", oneLine(err.Error()))
		return exitConfig
	}
	defer display.Close()
	k := &keyCLI{p: p, std: std, opts: o, display: display, keys: NewKeyManager(o, bus.fire)}
	if o.Str("eauth") != "" {
		remote, err := newKeyRemote(k)
		if err != nil {
			fmt.Fprintf(std.Err, "Error: %s\n", oneLine(err.Error()))
			return 0
		}
		defer remote.Close()
		k.keys = remote
	}
	if err := k.run(); err != nil {
		fmt.Fprintf(std.Err, "Error: %s\n", oneLine(err.Error()))
	}
	return 0
}

func isKeyStateWord(word string) bool {
	for _, prefix := range []string{"acc", "pre", "un", "rej", "den", "all"} {
		if strings.HasPrefix(word, prefix) {
			return true
		}
	}
	return false
}

// action is the one action of a command line that names several: the first in
// this order. The pattern of an action for all is `*`.
func (k *keyCLI) action() (name, match string) {
	for _, name := range []string{"gen_keys", "gen_signature", "list", "list_all", "print", "print_all", "accept", "accept_all",
		"reject", "reject_all", "delete", "delete_all", "finger", "finger_all"} {
		if !k.p.Bool(name) {
			continue
		}
		if base, all := strings.CutSuffix(name, "_all"); all && base != "list" {
			return base, "*"
		}
		if name == "list_all" {
			break
		}
		return name, k.p.Str(name)
	}
	return "list", "all"
}

func (k *keyCLI) run() error {
	action, match := k.action()
	all := k.p.Bool("include_all")
	k.include = KeyInclude{k.p.Bool("include_accepted"), k.p.Bool("include_rejected"), k.p.Bool("include_denied")}
	switch action {
	case "accept":
		k.include.Rejected, k.include.Accepted = k.include.Rejected || all, false
		return k.change(action, match)
	case "reject":
		k.include.Accepted, k.include.Rejected = k.include.Accepted || all, false
		return k.change(action, match)
	case "delete":
		return k.change(action, match)
	case "list":
		return k.show(k.keys.ListState(match))
	case "print":
		return k.show(k.keys.Print(match))
	case "finger":
		return k.show(k.keys.Fingers(match, k.opts.Str("hash_type")))
	case "gen_keys":
		manager := NewKeyManager(k.opts, nil)
		finger, err := manager.Generate(k.p.Str("gen_keys_dir"), match, k.p.Int("keysize"), k.p.Str("user"))
		if err != nil {
			return err
		}
		return k.show(NewMap("return", finger), nil)
	default: // gen_signature
		manager := NewKeyManager(k.opts, nil)
		done, err := manager.SignMaster(k.p.Str("priv"), k.p.Str("pub"), k.p.Str("signature_path"), k.p.Bool("auto_create"), k.p.Int("keysize"))
		if err != nil {
			return err
		}
		return k.show(NewMap("return", done), nil)
	}
}

// change accepts, rejects or deletes what matches, after the user agreed.
func (k *keyCLI) change(action, match string) error {
	found, err := k.keys.Match(match, false)
	if err != nil {
		return err
	}
	if action != "delete" {
		looked := NewMap()
		for _, state := range k.include.states() {
			if names, ok := found.Get(state); ok {
				looked.Set(state, names)
			}
		}
		found = looked
	}
	if found.Len() == 0 {
		fmt.Fprintf(k.std.Out, "The key glob '%s' does not match any %s keys.\n", match, k.lookedIn())
		return nil
	}
	participle := strings.TrimSuffix(action, "e") + "ed"
	fmt.Fprintf(k.std.Out, "The following keys are going to be %s:\n", participle)
	if err := k.show(found, nil); err != nil {
		return err
	}
	if !k.p.Bool("yes") {
		agreed, err := k.ask(action != "delete")
		if err != nil || !agreed {
			return err
		}
	}
	var done, bad []string
	switch action {
	case "accept":
		done, bad, err = k.keys.Accept(found, k.include)
	case "reject":
		done, err = k.keys.Reject(found, k.include)
	default:
		done, err = k.keys.Delete(found)
	}
	for _, id := range bad {
		fmt.Fprintf(k.std.Err, "Unable to accept invalid key for %s.\n", id)
	}
	out := bufio.NewWriter(k.std.Out)
	for _, id := range done {
		fmt.Fprintf(out, "Key for minion %s %s.\n", id, participle)
	}
	return errors.Join(err, out.Flush())
}

// lookedIn names the states of the message that nothing matched.
func (k *keyCLI) lookedIn() string {
	words := []string{"unaccepted"}
	for _, w := range []struct {
		on   bool
		word string
	}{{k.include.Accepted, "accepted"}, {k.include.Rejected, "rejected"}, {k.include.Denied, "denied"}} {
		if w.on {
			words = append(words, w.word)
		}
	}
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// ask puts the question; an empty answer means yes where that does no harm.
func (k *keyCLI) ask(yesIfEmpty bool) (bool, error) {
	question := "Proceed? [N/y] "
	if yesIfEmpty {
		question = "Proceed? [n/Y] "
	}
	io.WriteString(k.std.Out, question)
	line, err := bufio.NewReader(k.std.In).ReadString('\n')
	if line == "" && err != nil {
		return false, errors.New("EOF when reading a line")
	}
	answer := strings.ToLower(strings.TrimRight(line, "\r\n"))
	return answer == "" && yesIfEmpty || strings.HasPrefix(answer, "y"), nil
}

// show prints a result with the outputter that was asked for.
func (k *keyCLI) show(data *Map, err error) error {
	if err != nil {
		return err
	}
	return k.display.Show(data, "key", 0)
}

// keyBus tells a running master what was done. Without one it does nothing.
type keyBus struct {
	path string
	conn net.Conn
	wrap func(event []byte) ([]byte, error) // into the frames that the master reads
	dead bool
}

func (b *keyBus) fire(tag string, data *Map) {
	if b.dead {
		return
	}
	if b.conn == nil {
		ctx, cancel := context.WithTimeout(context.Background(), keyBusTimeout)
		defer cancel()
		var d net.Dialer
		conn, err := d.DialContext(ctx, "unix", b.path)
		if err != nil {
			b.dead = true
			return
		}
		b.conn, b.wrap = conn, busFramer(conn)
	}
	data.Set("_stamp", EventStamp(time.Now()))
	event, err := PackEvent(tag, data)
	if err != nil {
		return
	}
	frame, err := b.wrap(event)
	if err != nil {
		return
	}
	b.conn.SetWriteDeadline(time.Now().Add(keyBusTimeout))
	if _, err := b.conn.Write(frame); err != nil {
		b.Close()
		b.dead = true
	}
}

// Close ends the connection.
func (b *keyBus) Close() {
	if b.conn != nil {
		b.conn.Close()
		b.conn = nil
	}
}
