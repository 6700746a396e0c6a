// Keys, messages and the key directory against Python Salt itself: what one
// side makes the other reads. Python is HALITE_PYTHON or python3; without Salt
// in it these tests are skipped.
package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// saltPython runs a Python program that has Salt and answers JSON.
func saltPython(t *testing.T, program string, in map[string]any) map[string]any {
	t.Helper()
	python := envOr("HALITE_PYTHON", "python3")
	if out, err := exec.Command(python, "-c", "import salt.crypt").CombinedOutput(); err != nil {
		last := out[bytes.LastIndexByte(bytes.TrimSpace(out), '\n')+1:]
		t.Skipf("%s has no Salt (set HALITE_PYTHON): %v %s", python, err, bytes.TrimSpace(last))
	}
	head := `
import sys, json, base64, os
import salt.crypt, salt.payload, salt.utils.event, salt.utils.crypt, salt.config
given = json.load(sys.stdin)
b64 = lambda b: base64.b64encode(b).decode()
raw = lambda s: base64.b64decode(s)
answer = {}
`
	p, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, "-c", head+program+"\njson.dump(answer, sys.stdout)\n")
	cmd.Stdin = bytes.NewReader(p)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("python: %v\n%s", err, errs.String())
	}
	var answer map[string]any
	if err := json.Unmarshal(out, &answer); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return answer
}

func b64(p []byte) string { return base64.StdEncoding.EncodeToString(p) }

func TestInteropKeysAndMessages(t *testing.T) {
	dir := t.TempDir()
	ours, err := LoadOrCreateKey(dir, "ours", 2048)
	if err != nil {
		t.Fatal(err)
	}
	theirs := filepath.Join(dir, "theirs")
	if err := os.Mkdir(theirs, 0o700); err != nil {
		t.Fatal(err)
	}
	must := func(p []byte, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return b64(p)
	}
	keyString, nonce := GenerateKeyString(), NewNonce()
	c, err := NewCrypticle(keyString)
	if err != nil {
		t.Fatal(err)
	}
	value := NewMap("fun", "test.echo", "text", "grüße 日本", "list", NewList(int64(1), -2.5, nil, true, int64(1)<<40),
		"bytes", []byte{0, 0xff}, "long", strings.Repeat("x", 300), "map", NewMap(int64(3), "three"))
	msg := []byte("message")
	in := map[string]any{
		"dir": dir, "theirs": theirs, "key": keyString, "nonce": nonce, "msg": b64(msg),
		"sealed":      must(c.Encrypt(value, "")),
		"reply":       must(c.Encrypt(value, nonce)),
		"wire":        must(EncodeWire(value)),
		"event":       must(PackEvent("a/tag", value)),
		"tok":         must(ours.SignTok()),
		"sign_sha1":   must(ours.Sign(AlgoPKCS1v15SHA1, msg)),
		"sign_sha224": must(ours.Sign(AlgoPKCS1v15SHA224, msg)),
	}
	got := saltPython(t, `
D = given["dir"]
pem, pub = D + "/ours.pem", D + "/ours.pub"
theirs = given["theirs"]
getattr(salt.crypt, "write_keys", salt.crypt.gen_keys)(theirs, "theirs", 2048)  # since 3008 the first name
load = lambda kind, path: kind.from_file(path) if hasattr(kind, "from_file") else kind(path)
public = load(salt.crypt.PublicKey, pub)
priv = load(salt.crypt.PrivateKey, pem)
tp = load(salt.crypt.PrivateKey, theirs + "/theirs.pem")
msg = raw(given["msg"])
c = salt.crypt.Crypticle({}, given["key"])
value = c.loads(raw(given["sealed"]))
answer["value"] = repr(value)
answer["reply"] = repr(c.loads(raw(given["reply"]), nonce=given["nonce"]))
answer["wire"] = repr(salt.payload.loads(raw(given["wire"])))
tag, data = salt.utils.event.SaltEvent.unpack(raw(given["event"]))
answer["event"] = tag + repr(data)
answer["tok"] = public.decrypt(raw(given["tok"])).decode()
for name in ("SHA1", "SHA224"):
    answer["verify_" + name] = bool(public.verify(msg, raw(given["sign_" + name.lower()]), "PKCS1v15-" + name))
    answer["sign_" + name] = b64(tp.sign(msg, "PKCS1v15-" + name))
    answer["oaep_" + name] = b64(public.encrypt(msg, "OAEP-" + name))
answer["x931"] = b64(tp.encrypt(b"salt"))
answer["finger"] = salt.utils.crypt.pem_finger(pub)
answer["sealed"] = b64(c.dumps(value))
answer["sealed_reply"] = b64(c.dumps(value, given["nonce"]))
answer["repacked_wire"] = b64(salt.payload.dumps(value))
answer["repacked_bin"] = b64(salt.payload.dumps(value, use_bin_type=True))
`, in)
	want := Repr(value)
	for _, name := range []string{"value", "reply", "wire"} {
		if got[name] != want {
			t.Errorf("%s: Python read %v, want %s", name, got[name], want)
		}
	}
	if got["event"] != "a/tag"+want {
		t.Errorf("event: Python read %v", got["event"])
	}
	if got["tok"] != "salt" || got["verify_SHA1"] != true || got["verify_SHA224"] != true {
		t.Errorf("our signatures: tok %v, %v, %v", got["tok"], got["verify_SHA1"], got["verify_SHA224"])
	}
	text := func(name string) string { s, _ := got[name].(string); return s }
	raw := func(name string) []byte { return unbase64(t, text(name)) }
	if finger := Fingerprint([]byte(ours.PublicPEM()+"\n"), "sha256"); finger != got["finger"] {
		t.Errorf("fingerprint %s, Python has %v", finger, got["finger"])
	}
	pair, err := LoadKey(theirs, "theirs", "")
	if err != nil {
		t.Fatal(err)
	}
	if m, err := pair.Pub().RecoverX931(raw("x931")); err != nil || string(m) != "salt" {
		t.Errorf("Python's tok: %q, %v", m, err)
	}
	if own, err := pair.SignTok(); err != nil || !bytes.Equal(own, raw("x931")) {
		t.Errorf("tok of the same key differs (%v)", err)
	}
	for _, h := range []string{"SHA1", "SHA224"} {
		if err := pair.Pub().Verify("PKCS1v15-"+h, msg, raw("sign_"+h)); err != nil {
			t.Errorf("Python's signature with %s: %v", h, err)
		}
		if m, err := ours.DecryptOAEP("OAEP-"+h, raw("oaep_"+h)); err != nil || !bytes.Equal(m, msg) {
			t.Errorf("Python's OAEP with %s: %q, %v", h, m, err)
		}
	}
	if v, err := c.Decrypt(raw("sealed"), ""); err != nil || Repr(v) != want {
		t.Errorf("sealed by Python: %s, %v", Repr(v), err)
	}
	if v, err := c.Decrypt(raw("sealed_reply"), nonce); err != nil || Repr(v) != want {
		t.Errorf("reply sealed by Python: %s, %v", Repr(v), err)
	}
	for name, encode := range map[string]func(any) ([]byte, error){"repacked_wire": EncodeWire, "repacked_bin": EncodeBin} {
		if p, err := encode(value); err != nil || !bytes.Equal(p, raw(name)) {
			t.Errorf("%s: %x, Python has %x (%v)", name, p, raw(name), err)
		}
	}
}

func TestInteropKeyDirectory(t *testing.T) {
	dir := t.TempDir()
	d := OpenKeyDir(filepath.Join(dir, "pki"))
	keys := readVectorKeys(t)
	pem := []byte(keys.pub["minion"].PEM())
	for state, id := range map[string]string{KeyAccepted: "acc", KeyPending: "pre", KeyRejected: "rej", KeyDenied: "den"} {
		if err := d.Put(state, id, pem); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := LoadOrCreateKey(d.Dir(), "master", 2048); err != nil {
		t.Fatal(err)
	}
	before, _ := os.ReadFile(filepath.Join(d.Dir(), "master.pem"))
	conf := filepath.Join(dir, "master")
	config := "root_dir: " + dir + "\npki_dir: " + d.Dir() + "\ncachedir: " + dir + "/cache\nsock_dir: " + dir + "/run\nlog_file: " + dir + "/log\nkey_logfile: " + dir + "/log\n"
	if err := os.WriteFile(conf, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	got := saltPython(t, `
import salt.key
os.makedirs(os.path.dirname(given["conf"]) + "/cache", exist_ok=True)
os.makedirs(os.path.dirname(given["conf"]) + "/run", exist_ok=True)
opts = salt.config.client_config(given["conf"])
opts["__role"] = "master"
keys = salt.crypt.MasterKeys(opts)          # a Python master takes the pair over
k = salt.key.get_key(opts)
answer["list"] = k.list_keys()
k.accept("pre")
answer["after"] = k.list_keys()
answer["pub"] = keys.get_pub_str()
`, map[string]any{"conf": conf})
	list, _ := got["list"].(map[string]any)
	for state, id := range map[string]string{KeyAccepted: "acc", KeyPending: "pre", KeyRejected: "rej", KeyDenied: "den"} {
		if names, _ := list[state].([]any); len(names) != 1 || names[0] != id {
			t.Errorf("Python lists %s as %v", state, list[state])
		}
	}
	// And back: what Python did, and its own pair (with links since 3008), is ours.
	if ids, err := d.List(KeyAccepted); err != nil || !slices.Equal(ids, []string{"acc", "pre"}) {
		t.Errorf("accepted after Python: %v, %v", ids, err)
	}
	if text, err := d.Get(KeyAccepted, "pre"); err != nil || !SameKey(text, pem) {
		t.Errorf("key after Python: %v", err)
	}
	layout := func() string {
		entries, err := os.ReadDir(d.Dir())
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for _, e := range entries {
			link, _ := os.Readlink(filepath.Join(d.Dir(), e.Name()))
			text, _ := os.ReadFile(filepath.Join(d.Dir(), e.Name()))
			b.WriteString(e.Name() + " " + e.Type().String() + " " + link + " " + string(text) + "\n")
		}
		return b.String()
	}
	theirs := layout()
	again, err := LoadOrCreateKey(d.Dir(), "master", 2048)
	if err != nil {
		t.Fatal(err)
	}
	if after := again.PrivatePEM(); !bytes.Equal(after, before) {
		t.Error("the master has another key after Python had it")
	}
	if again.PublicPEM() != got["pub"] {
		t.Errorf("Python sends the key as %q", got["pub"])
	}
	if layout() != theirs {
		t.Errorf("the directory was changed from\n%s to\n%s", theirs, layout())
	}
}
