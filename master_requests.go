// Encrypted requests of minions: who asks, what may be asked, and the answer.
//
// The law of this room: sealedCommands is the whole list. A request gets here
// only after its sender was proved: the key that opened it belongs to the id in
// it, and the token was made by the accepted key of that id. A command that
// fails answers "" and is logged, as with Salt; the minion is never left waiting.
package main

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// minionRequest is one request of a minion whose identity was checked.
type minionRequest struct {
	peer *Peer
	out  *Request // the outer map
	in   *RequestLoad
	id   string
	load *Map // in.Data
	pub  *PublicKey
	bufs *fileBuffers // of the answer, nil for none
}

// sealedCommand answers one command. A *rawReply goes out as it is; any other
// value is sealed for the minion.
type sealedCommand func(m *Master, ctx context.Context, q *minionRequest) (any, error)

// rawReply is an answer that was already sealed.
type rawReply []byte

// sealedCommands is the allow-list of encrypted commands.
func sealedCommands() map[string]sealedCommand {
	return map[string]sealedCommand{
		"_dir_list":            (*Master).cmdFileList,
		"_file_envs":           (*Master).cmdFileEnvs,
		"_file_find":           (*Master).cmdFileFind,
		"_file_hash":           (*Master).cmdFileHash,
		"_file_hash_and_stat":  (*Master).cmdFileHash,
		"_file_list":           (*Master).cmdFileList,
		"_file_list_emptydirs": (*Master).cmdFileList,
		"_file_recv":           (*Master).cmdFileRecv,
		"_master_opts":         (*Master).cmdMasterOpts,
		"_master_tops":         (*Master).cmdMasterTops,
		"_mine":                (*Master).cmdMine,
		"_mine_delete":         (*Master).cmdMineDelete,
		"_mine_flush":          (*Master).cmdMineFlush,
		"_mine_get":            (*Master).cmdMineGet,
		"_minion_event":        (*Master).cmdMinionEvent,
		"_pillar":              (*Master).cmdPillar,
		"_register_resources":  (*Master).cmdRegisterResources,
		"_return":              (*Master).cmdReturn,
		"_serve_file":          (*Master).cmdServeFile,
		"_symlink_list":        (*Master).cmdFileList,
		"_syndic_return":       (*Master).cmdSyndicReturn,
		"minion_pub":           (*Master).cmdMinionPub,
		"minion_publish":       (*Master).cmdMinionPublish,
		"minion_runner":        (*Master).cmdMinionRunner,
		"pub_ret":              (*Master).cmdPubRet,
		"revoke_auth":          (*Master).cmdRevokeAuth,
	}
}

// handleSealed opens, checks and answers an encrypted request. Its errors are
// refusals.
func (m *Master) handleSealed(ctx context.Context, p *Peer, r *Request) ([]byte, error) {
	now := time.Now()
	if r.Version < m.minVersion {
		return nil, &Refusal{Text: refusedBadLoad, Why: fmt.Sprintf("protocol version %d is below minimum_auth_version %d", r.Version, m.minVersion)}
	}
	c := m.aes.Load().c
	if r.Version >= 3 {
		if err := ValidMinionID(r.ID); err != nil {
			return nil, err
		}
		var err error
		if c, err = m.sessions.Crypticle(r.ID, now); err != nil {
			return nil, err
		}
	}
	in, err := r.Open(c, now, m.requestTTL)
	if err != nil {
		return nil, err
	}
	// Older versions could leave these away; an identity that is not proved is
	// no identity.
	if in.ID == "" || in.Tok == nil {
		return nil, &Refusal{Text: refusedBadLoad, Why: "request without id or tok"}
	}
	pub, err := m.publicKeyOf(in.ID)
	if err != nil {
		return nil, err
	}
	if !m.toks.Verify(in.ID, pub, in.Tok) {
		return nil, &Refusal{Text: refusedBadLoad, Why: fmt.Sprintf("the token of %s was not made by its key", in.ID)}
	}
	m.seen.note(in.ID, p.RemoteAddr)
	q := &minionRequest{peer: p, out: r, in: in, id: in.ID, load: in.Data, pub: pub}
	q.load.Delete("nonce")
	started := time.Now()
	v := m.answer(ctx, q)
	m.payOwed(in.ID)
	m.metrics.command(in.Cmd, time.Since(started))
	if raw, ok := v.(rawReply); ok {
		return raw, nil
	}
	var buf []byte
	if q.bufs != nil {
		buf = q.bufs.sealed
	}
	out, err := r.SealReply(buf, c, in.Nonce, v)
	if err != nil {
		m.log.Error(fmt.Sprintf("answer to %s of %s: %v", in.Cmd, in.ID, err))
		return r.SealReply(nil, c, in.Nonce, "")
	}
	return out, nil
}

// answer runs the command. Whatever happens there is a value to answer.
func (m *Master) answer(ctx context.Context, q *minionRequest) (v any) {
	cmd := q.in.Cmd
	f, ok := m.sealed[cmd]
	if !ok {
		m.grumble.warn(hostOf(q.peer.RemoteAddr), fmt.Sprintf("minion %s at %s asks for the unknown command %s", q.id, q.peer.RemoteAddr, shortRepr(cmd)))
		return NewMap()
	}
	defer func() {
		if r := recover(); r != nil {
			m.log.Error(fmt.Sprintf("%s of %s at %s: panic: %v\n%s", cmd, q.id, q.peer.RemoteAddr, r, debug.Stack()))
			v = ""
		}
	}()
	v, err := f(m, ctx, q)
	if err != nil {
		m.log.Error(fmt.Sprintf("%s of %s at %s: %v", cmd, q.id, q.peer.RemoteAddr, err))
		return ""
	}
	return v
}

// cmdReturn files a return and tells the bus.
func (m *Master) cmdReturn(_ context.Context, q *minionRequest) (any, error) {
	if m.o().Bool("require_minion_sign_messages") && !q.load.Has("sig") {
		m.log.Error(fmt.Sprintf("dropped a return of %s: require_minion_sign_messages is on and it is not signed", q.id))
		return false, nil
	}
	ret, err := DecodeReturn(q.load, q.id)
	if err != nil {
		m.grumble.warn(hostOf(q.peer.RemoteAddr), fmt.Sprintf("ignored from %s: %v", q.peer.RemoteAddr, err))
		return nil, nil
	}
	return nil, m.takeReturn(ret)
}

// takeReturn files one return: of a job of ours, of one that a minion started by
// itself, or of a salt-call.
func (m *Master) takeReturn(ret *ReturnLoad) error {
	load := ret.Map
	m.metrics.returns.Add(1)
	jid := ret.JID
	if jid == JIDRequest {
		jid = m.nextJID()
		load.Set("jid", jid)
	}
	if jid == JIDNoCache {
		m.bus.Fire("salt/job/"+jid+"/ret/"+ret.ID, load)
		m.fireStateErrors(jid, ret)
		return nil
	}
	var err error
	if !m.jobs.Known(jid) {
		job := load.Clone()
		job.Delete("return")
		args, ok := load.Get("arg")
		if !ok {
			if args, ok = load.Get("fun_args"); !ok {
				args = NewList()
			}
		}
		job.Set("arg", args)
		job.Set("tgt_type", "glob")
		job.Set("tgt", ret.ID)
		err = m.jobs.Begin(jid, job, []string{ret.ID}, Truth(load.Value("nocache")))
	}
	first := true
	if err == nil {
		first, err = m.jobs.Return(jid, ret.ID, load)
	}
	m.owed.settle(jid, ret.ID)
	if err != nil {
		// The one who waits for it gets it all the same: on a full disk the
		// master can still be used to make room.
		m.log.Error(err.Error())
		first = true
	}
	if !first {
		m.metrics.duplicates.Add(1)
		m.log.Info(fmt.Sprintf("minion %s sent its return for job %s again", ret.ID, jid))
		return nil
	}
	m.log.Info(fmt.Sprintf("got return from %s for job %s", ret.ID, jid))
	m.bus.Fire("salt/job/"+jid+"/ret/"+ret.ID, load)
	m.fireStateErrors(jid, ret)
	return nil
}

// fireStateErrors tells the bus of each failed state of a state run.
func (m *Master) fireStateErrors(jid string, ret *ReturnLoad) {
	failed := false
	for _, code := range ret.Retcodes() {
		failed = failed || code != 0
	}
	if !failed {
		return
	}
	fire := func(fun string, states, retcode any) {
		if fun != "state.sls" && fun != "state.highstate" {
			return
		}
		results, _ := states.(*Map)
		for tag, v := range results.All() {
			name, _ := tag.(string)
			state, ok := v.(*Map)
			if !ok || state.Value("result") != false {
				continue
			}
			parts := strings.Split(name, "_|-")
			ev := state.Clone()
			ev.Set("retcode", retcode)
			ev.Set("jid", jid)
			ev.Set("id", ret.ID)
			ev.Set("success", false)
			ev.Set("return", "Error: "+parts[0]+"."+parts[len(parts)-1])
			ev.Set("fun", fun)
			if user, ok := ret.Map.Get("user"); ok {
				ev.Set("user", user)
			}
			m.bus.Fire("salt/job/"+jid+"/sub/"+ret.ID+"/error/"+fun, ev)
		}
	}
	switch fun := ret.Fun.(type) {
	case string:
		fire(fun, ret.Return, ret.Retcode)
	case *List:
		returns, _ := ret.Return.(*Map)
		codes, _ := ret.Retcode.(*Map)
		for _, f := range fun.Items {
			fire(Str(f), returns.Value(f), codes.Value(f))
		}
	}
}

// cmdSyndicReturn refuses: this master has no masters below it.
func (m *Master) cmdSyndicReturn(_ context.Context, q *minionRequest) (any, error) {
	m.grumble.warn(hostOf(q.peer.RemoteAddr), fmt.Sprintf("%s at %s sends returns as a syndic, which this master does not take", q.id, q.peer.RemoteAddr))
	return NewMap("error", NewMap("name", "SaltMasterError", "message", "this master does not take returns of a syndic")), nil
}

// cmdMinionEvent puts what a minion sends on the bus, under tags that are its own.
func (m *Master) cmdMinionEvent(_ context.Context, q *minionRequest) (any, error) {
	if tag := q.load.Str("tag"); tag == "_salt_error" {
		m.log.Error(fmt.Sprintf("minion %s reports an error: %s", q.id, shortRepr(q.load.Map("data").Value("message"))))
	}
	allowed := func(tag string) bool {
		if validMinionTag(tag, q.id) {
			return true
		}
		m.grumble.warn(hostOf(q.peer.RemoteAddr), fmt.Sprintf("dropped an event of %s: the tag %s is not for it", q.id, shortRepr(tag)))
		return false
	}
	events, ok := q.load.Get("events")
	if !ok {
		tag := q.load.Str("tag")
		if tag == "" || !q.load.Has("data") || !allowed(tag) {
			return nil, nil
		}
		m.bus.Fire(tag, q.load)
		return nil, nil
	}
	pretag := q.load.Str("pretag")
	for _, item := range toItems(events) {
		ev, ok := item.(*Map)
		if !ok {
			continue
		}
		tag := ev.Str("tag")
		if tag == "" || !allowed(tag) {
			continue
		}
		var data *Map
		switch d := ev.Value("data").(type) {
		case *Map:
			data = d
		case nil:
			data = ev
		default:
			data = NewMap("data", d)
		}
		m.bus.Fire(tag, data)
		if pretag != "" && allowed(pretag+"/"+tag) {
			m.bus.Fire(pretag+"/"+tag, data.Clone())
		}
		if minions, ok := data.Get("minions"); ok && ValidJID(data.Str("jid")) == nil {
			if err := m.jobs.AddMinions(data.Str("jid"), toStrings(minions)); err != nil {
				m.log.Error(err.Error())
			}
		}
	}
	return nil, nil
}

// validMinionTag says whether a minion may use a tag: those by which the master
// reports, and those that name another minion, are not for it.
func validMinionTag(tag, id string) bool {
	if strings.ContainsAny(tag, "\n\x00") || len(tag) > 1024 {
		return false
	}
	parts := strings.Split(tag, "/")
	at := func(i int) string {
		if i < len(parts) {
			return parts[i]
		}
		return ""
	}
	if parts[0] == "minion" && at(1) == "refresh" {
		return at(2) == id
	}
	if parts[0] == "key" {
		return false
	}
	if parts[0] != "salt" {
		return true
	}
	switch at(1) {
	case "key", "cloud", "run", "cluster", "auth", "presence":
		return false
	case "wheel":
		return at(3) != "new" && at(3) != "ret" && at(3) != "return"
	case "job":
		switch at(3) {
		case "publish", "new", "return", "error":
			return false
		case "ret", "prog", "sub":
			return at(4) == id
		}
	case "minion", "beacon":
		return at(2) == id
	}
	return true
}

// cmdPillar compiles the pillar of a minion, keeps grains and pillar for
// targeting, and answers under a one-shot key.
func (m *Master) cmdPillar(ctx context.Context, q *minionRequest) (any, error) {
	grains := q.load.Map("grains")
	if grains == nil {
		return false, nil
	}
	if grains.Str("id") != q.id {
		grains = grains.Clone()
		grains.Set("id", q.id)
	}
	saltenv := q.load.Str("saltenv")
	if saltenv == "" {
		saltenv = q.load.Str("env")
	}
	pillar := NewMap()
	if m.Pillar != nil {
		var err error
		if pillar, err = m.Pillar.Pillar(ctx, PillarRequest{
			ID: q.id, Grains: grains, Saltenv: saltenv, Pillarenv: q.load.Str("pillarenv"),
			Override: q.load.Map("pillar_override"), Extra: q.load.Map("extra_minion_data"), Ext: q.load.Value("ext"),
		}); err != nil {
			return nil, fmt.Errorf("compile the pillar: %w", err)
		}
	}
	if m.o().Bool("minion_data_cache") {
		if err := m.index.SetData(q.id, grains, pillar); err != nil {
			m.log.Error(err.Error())
		}
		if m.o().Bool("minion_data_cache_events") {
			m.bus.Fire("minion/refresh/"+q.id, NewMap("Minion data cache refresh", q.id))
		}
	}
	if q.load.Str("ver") != "2" && m.o().Int("pillar_version") == 1 {
		return pillar, nil
	}
	if !ValidEncAlgo(q.out.EncAlgo) || !ValidSigAlgo(q.out.SigAlgo) {
		return nil, fmt.Errorf("unknown algorithm %s or %s", shortRepr(q.out.EncAlgo), shortRepr(q.out.SigAlgo))
	}
	out, err := NewPillarReply(q.out.Version, pillar, q.in.Nonce,
		func(p []byte) ([]byte, error) { return q.pub.EncryptOAEP(q.out.EncAlgo, p) },
		func(p []byte) ([]byte, error) { return m.key.Sign(q.out.SigAlgo, p) })
	if err != nil {
		return nil, err
	}
	return rawReply(out), nil
}

// cmdMasterOpts answers the options that a minion needs for its states.
func (m *Master) cmdMasterOpts(_ context.Context, q *minionRequest) (any, error) {
	envs := NewMap()
	if m.files() != nil {
		for _, env := range m.files().Envs() {
			envs.Set(env, NewList())
		}
	}
	out := NewMap("file_roots", envs)
	names := []string{"top_file_merging_strategy", "env_order", "default_top"}
	if !Truth(q.load.Value("env_only")) {
		names = append(names, "renderer", "failhard", "state_top", "state_top_saltenv", "nodegroups",
			"state_auto_order", "state_events", "state_aggregate", "jinja_env", "jinja_sls_env",
			"jinja_lstrip_blocks", "jinja_trim_blocks")
	}
	for _, name := range names {
		out.Set(name, m.o().Value(name))
	}
	return out, nil
}

// cmdMasterTops answers what the master's tops assign to a minion.
func (m *Master) cmdMasterTops(ctx context.Context, q *minionRequest) (any, error) {
	if m.Tops == nil {
		return NewMap(), nil
	}
	return m.Tops.Tops(ctx, q.id, q.load.Map("opts"))
}

// cmdRegisterResources takes note of nothing: this master manages no resources,
// and minions that have some must not take that for a failure.
func (m *Master) cmdRegisterResources(_ context.Context, q *minionRequest) (any, error) {
	if n := q.load.Map("resources").Len(); n > 0 {
		m.log.Info(fmt.Sprintf("minion %s registers %d kinds of resources, which this master does not manage", q.id, n))
	}
	return NewMap(), nil
}

// cmdRevokeAuth removes the key of the minion that asks for it.
func (m *Master) cmdRevokeAuth(_ context.Context, q *minionRequest) (any, error) {
	if !m.o().Bool("allow_minion_key_revoke") {
		m.log.Warn(fmt.Sprintf("minion %s asked to revoke its key, but allow_minion_key_revoke is off", q.id))
		return q.load, nil
	}
	if err := m.deleteKey(q.id, Truth(q.load.Value("preserve_minion_cache"))); err != nil {
		return nil, err
	}
	m.log.Info(fmt.Sprintf("minion %s at %s revoked its key", q.id, q.peer.RemoteAddr))
	return true, nil
}

// deleteKey removes the key of a minion and what belongs to it.
func (m *Master) deleteKey(id string, keepData bool) error {
	m.deciding.Lock()
	err := m.keys.Delete(id)
	m.deciding.Unlock()
	if err != nil {
		return err
	}
	m.dropIdentity(id)
	if !keepData && !m.o().Bool("preserve_minion_cache") {
		if err := m.index.Forget(id); err != nil {
			m.log.Error(err.Error())
		}
	}
	m.keyEvent("delete", id)
	return nil
}

// dropIdentity forgets everything by which a minion was known, so that its next
// request is refused, and rotates the key of publications if so configured.
func (m *Master) dropIdentity(id string) {
	m.toks.Forget(id)
	m.pubKeys.forget(id)
	m.seen.forget(id)
	m.owed.forget(id)
	if err := m.sessions.Forget(id); err != nil {
		m.log.Error(err.Error())
	}
	if m.o().Bool("rotate_aes_key") {
		if err := m.rotateAES(fmt.Sprintf("the key of %s is no longer accepted", id)); err != nil {
			m.log.Error(fmt.Sprintf("rotate the publication key: %v", err))
		}
	}
}

func (m *Master) keyEvent(act, id string) {
	m.bus.Fire("salt/key", NewMap("result", true, "act", act, "id", id))
}

// cmdMine stores mine data.
func (m *Master) cmdMine(_ context.Context, q *minionRequest) (any, error) {
	data := q.load.Map("data")
	if data == nil {
		return false, nil
	}
	if !m.keepsMine() {
		return true, nil
	}
	m.mining.Lock()
	defer m.mining.Unlock()
	if !Truth(q.load.Value("clear")) {
		have, err := m.index.Mine(q.id)
		if err != nil {
			m.log.Warn(fmt.Sprintf("mine of %s is started anew: %v", q.id, err))
			have = NewMap()
		}
		have.Merge(data)
		data = have
	}
	return true, m.index.SetMine(q.id, data)
}

func (m *Master) keepsMine() bool {
	return m.o().Bool("minion_data_cache") || m.o().Bool("enforce_mine_cache")
}

// cmdMineDelete removes one function from the mine of the minion.
func (m *Master) cmdMineDelete(_ context.Context, q *minionRequest) (any, error) {
	fun, ok := q.load.Get("fun")
	if !ok || !Hashable(fun) {
		return false, nil
	}
	m.mining.Lock()
	defer m.mining.Unlock()
	have, err := m.index.Mine(q.id)
	if err != nil {
		return false, nil
	}
	if have.Delete(fun) {
		return true, m.index.SetMine(q.id, have)
	}
	return true, nil
}

// cmdMineFlush removes the mine of the minion.
func (m *Master) cmdMineFlush(_ context.Context, q *minionRequest) (any, error) {
	m.mining.Lock()
	defer m.mining.Unlock()
	return true, m.index.SetMine(q.id, nil)
}

// The marks of a mine entry that says who may read it.
const (
	mineACLMark = "__saltmine_acl__"
	mineACLData = "__data__"
)

// cmdMineGet answers what other minions put into the mine.
func (m *Master) cmdMineGet(_ context.Context, q *minionRequest) (any, error) {
	var funs []string
	several := false
	switch f := q.load.Value("fun").(type) {
	case string:
		for _, name := range strings.Split(f, ",") {
			if !slices.Contains(funs, name) {
				funs = append(funs, name)
			}
		}
		several = len(funs) > 1
	case *List:
		funs, several = toStrings(f), true
	default:
		return NewMap(), nil
	}
	tgt, ok := q.load.Get("tgt")
	if !ok {
		return NewMap(), nil
	}
	if acl, ok := m.o().All().Get("mine_get"); ok {
		funs = slices.DeleteFunc(funs, func(fun string) bool { return !matchesAny(rulesFor(acl, q.id), fun) })
		if len(funs) == 0 {
			return NewMap(), nil
		}
	}
	kind := q.load.Str("tgt_type")
	if !q.load.Has("tgt_type") {
		kind = q.load.Str("expr_form")
	}
	res, err := m.index.Resolve(exactKind(kind), tgt, q.load.Str("delimiter"), m.o().Map("nodegroups"), false)
	var bad *TargetError
	if errors.As(err, &bad) {
		m.log.Info(fmt.Sprintf("mine.get of %s: %v", q.id, err))
		return NewMap(), nil
	}
	if err != nil {
		return nil, err
	}
	out := NewMap()
	for _, id := range res.Minions {
		mine, err := m.index.Mine(id)
		if err != nil {
			m.log.Warn(err.Error())
			continue
		}
		for _, fun := range funs {
			v, ok := mine.Get(fun)
			if !ok {
				continue
			}
			if entry, ok := v.(*Map); ok && entry.Has(mineACLMark) {
				v = entry.Value(mineACLData)
				if !m.mineAllowed(entry, q.id) {
					continue
				}
			}
			if !several {
				out.Set(id, v)
				continue
			}
			byMinion := out.Map(fun)
			if byMinion == nil {
				byMinion = NewMap()
				out.Set(fun, byMinion)
			}
			byMinion.Set(id, v)
		}
	}
	return out, nil
}

// mineAllowed says whether the entry's own rule lets a minion read it.
func (m *Master) mineAllowed(entry *Map, id string) bool {
	tgt, ok := entry.Get("allow_tgt")
	if !ok {
		return true
	}
	res, err := m.index.Resolve(entry.Str("allow_tgt_type"), tgt, "", m.o().Map("nodegroups"), false)
	return err == nil && slices.Contains(res.Minions, id)
}

// exactKind is the target type for questions of access: whoever can choose a
// pattern could guess pillar values by it.
func exactKind(kind string) string {
	switch strings.ToLower(kind) {
	case "pillar", "pillar_pcre":
		return "pillar_exact"
	case "compound":
		return "compound_pillar_exact"
	}
	return kind
}
