// Keys, signatures and seals against vectors of Python Salt, and what must be
// refused.
package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestRSAVectors(t *testing.T) {
	keys := readVectorKeys(t)
	var file struct {
		Vectors []struct {
			Op, Algorithm, Key string
			Message            string `json:"message_b64"`
			Signature          string `json:"signature_b64"`
			Ciphertext         string `json:"ciphertext_b64"`
		}
	}
	readVectors(t, "rsa", &file)
	seen := map[string]int{}
	for _, v := range file.Vectors {
		pair, pub := keys.pair[v.Key], keys.pub[v.Key]
		msg, want := unbase64(t, v.Message), unbase64(t, v.Signature+v.Ciphertext)
		seen[v.Op]++
		switch v.Op {
		case "x931":
			sig, err := pair.SignX931(msg)
			if err != nil || !bytes.Equal(sig, want) {
				t.Errorf("x931 %s: %x, want %x (%v)", v.Key, sig, want, err)
			}
			if back, err := pub.RecoverX931(want); err != nil || !bytes.Equal(back, msg) {
				t.Errorf("x931 %s: recovered %x, want %x (%v)", v.Key, back, msg, err)
			}
		case "sign":
			sig, err := pair.Sign(v.Algorithm, msg)
			if err != nil || !bytes.Equal(sig, want) {
				t.Errorf("%s %s: %x, want %x (%v)", v.Algorithm, v.Key, sig, want, err)
			}
			if err := pub.Verify(v.Algorithm, msg, want); err != nil {
				t.Error(err)
			}
			if err := pub.Verify(v.Algorithm, append(msg, 1), want); !errors.Is(err, ErrBadSignature) {
				t.Errorf("another message verifies: %v", err)
			}
		case "oaep":
			if plain, err := pair.DecryptOAEP(v.Algorithm, want); err != nil || !bytes.Equal(plain, msg) {
				t.Errorf("%s %s: %x, want %x (%v)", v.Algorithm, v.Key, plain, msg, err)
			}
			sealed, err := pub.EncryptOAEP(v.Algorithm, msg)
			if err != nil {
				t.Fatal(err)
			}
			if plain, err := pair.DecryptOAEP(v.Algorithm, sealed); err != nil || !bytes.Equal(plain, msg) {
				t.Errorf("%s there and back: %x (%v)", v.Algorithm, plain, err)
			}
		}
	}
	if len(seen) != 3 {
		t.Errorf("operations seen: %v", seen)
	}
}

func TestX931EveryLengthAndRefusals(t *testing.T) {
	pair := readVectorKeys(t).pair["minion"]
	for _, n := range []int{0, 1, 4, 64, 252, 253, 254} {
		msg := bytes.Repeat([]byte{0xbb}, n) // the fill byte, so that only the marks tell
		sig, err := pair.SignX931(msg)
		if err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
		if back, err := pair.Pub().RecoverX931(sig); err != nil || !bytes.Equal(back, msg) {
			t.Errorf("%d bytes came back as %d (%v)", n, len(back), err)
		}
	}
	if _, err := pair.SignX931(make([]byte, 255)); err == nil {
		t.Error("a message of 255 bytes was signed")
	}
	sig, _ := pair.SignTok()
	for i := range sig {
		bad := bytes.Clone(sig)
		bad[i] ^= 0x10
		if msg, err := pair.Pub().RecoverX931(bad); err == nil && string(msg) == tokMessage {
			t.Fatalf("byte %d changed and it verifies", i)
		}
	}
	for _, bad := range [][]byte{nil, sig[1:], append([]byte{0}, sig...), bytes.Repeat([]byte{0xff}, 256), make([]byte, 256)} {
		if _, err := pair.Pub().RecoverX931(bad); !errors.Is(err, ErrBadSignature) {
			t.Errorf("%d bytes: %v", len(bad), err)
		}
	}
}

func TestAlgorithmsAreNotMixed(t *testing.T) {
	pair := readVectorKeys(t).pair["minion"]
	for _, algo := range []string{"", "OAEP-SHA256", AlgoPKCS1v15SHA1} {
		if _, err := pair.Pub().EncryptOAEP(algo, nil); err == nil {
			t.Errorf("encrypted with %q", algo)
		}
		if _, err := pair.DecryptOAEP(algo, make([]byte, 256)); err == nil {
			t.Errorf("decrypted with %q", algo)
		}
	}
	for _, algo := range []string{"", "PKCS1v15-SHA256", AlgoOAEPSHA1} {
		if _, err := pair.Sign(algo, nil); err == nil {
			t.Errorf("signed with %q", algo)
		}
		if err := pair.Pub().Verify(algo, nil, make([]byte, 256)); err == nil {
			t.Errorf("verified with %q", algo)
		}
	}
}

func TestPEMVectors(t *testing.T) {
	var file struct {
		Vectors struct {
			CleanKey []struct {
				In  string `json:"in_b64"`
				Out string `json:"out_b64"`
			} `json:"clean_key"`
			Finger []struct {
				Key     string
				SumType string `json:"sum_type"`
				Body    string `json:"finger_body"`
				Whole   string `json:"finger_of_whole_stripped_text"`
			}
		}
	}
	readVectors(t, "pem", &file)
	keys := readVectorKeys(t)
	for i, v := range file.Vectors.CleanKey {
		in, out := unbase64(t, v.In), unbase64(t, v.Out)
		if got := CleanKey(string(in)); got != string(out) {
			t.Errorf("clean key %d: %q, want %q", i, got, out)
		}
		if !SameKey(in, out) {
			t.Errorf("clean key %d: not the same key", i)
		}
	}
	for _, v := range file.Vectors.Finger {
		pem := keys.pub[v.Key].PEM()
		for _, text := range []string{pem, pem + "\n", strings.ReplaceAll(pem, "\n", "\r\n"), "\n" + pem + "\n\n"} {
			if got := Fingerprint([]byte(text), v.SumType); got != v.Body {
				t.Errorf("%s %s: %s, want %s", v.Key, v.SumType, got, v.Body)
			}
		}
		if v.SumType == "sha256" {
			if err := CheckMasterFinger(strings.ToUpper(v.Body), keys.pub[v.Key], ""); err != nil {
				t.Error(err)
			}
			if CheckMasterFinger(v.Body[:len(v.Body)-1]+"x", keys.pub[v.Key], "") == nil {
				t.Error("a wrong master_finger passed")
			}
		}
	}
}

func TestKeysAreComparedParsed(t *testing.T) {
	keys := readVectorKeys(t)
	pem := keys.pub["minion"].PEM()
	body := strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(pem, "-----BEGIN PUBLIC KEY-----\n"), "\n-----END PUBLIC KEY-----"), "\n", "")
	oneLine := "-----BEGIN PUBLIC KEY-----\n" + body + "\n-----END PUBLIC KEY-----\n"
	if !SameKey([]byte(pem), []byte(oneLine)) {
		t.Error("other line lengths make another key")
	}
	if SameKey([]byte(pem), []byte(keys.pub["minion2"].PEM())) {
		t.Error("two keys are the same")
	}
	if !SameKey([]byte("junk\r\n"), []byte("junk")) || SameKey([]byte("junk"), []byte(pem)) {
		t.Error("texts that are no keys are compared wrongly")
	}
}

func TestWeakAndStrangeKeysAreRefused(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":  "",
		"no PEM":   "ssh-rsa AAAA",
		"1024 bit": "-----BEGIN PUBLIC KEY-----\nMIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQDXB4S8G6lHqNq9XuTOK5VtsHTf\nP5S8fz8xJUxUFCBWVBTZIb3vxQ0VCJXBz4u3X3O1dTPTxTTx2OAvXKSTUEcLQyDq\nkBy7UEb7VSNwE6JVtwvaZDcSGGmHVTPGZMhsp4bmwrXZXWJbzQjEFaVZMF8f1YJ5\nAQIDAQAB\n-----END PUBLIC KEY-----",
		"garbage":  "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----",
		"private":  "-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----",
	} {
		if _, err := ParsePublicKey([]byte(text)); err == nil {
			t.Errorf("%s was taken as a public key", name)
		}
	}
	if _, err := GenerateKey(1024); err == nil {
		t.Error("a key of 1024 bits was made")
	}
	pem := readVectorKeys(t).pub["minion"].PEM()
	if _, err := ParsePublicKey([]byte(pem + "\n" + pem)); err == nil {
		t.Error("two keys in one text were taken as one")
	}
}

func TestLoadOrCreateKeyWritesSaltsFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	k, err := LoadOrCreateKey(dir, "minion", 2048)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{"": 0o700, "minion.pem": 0o400, "minion.pub": 0o644} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%q has mode %v, want %v (%v)", name, info.Mode().Perm(), want, err)
		}
	}
	pem, _ := os.ReadFile(filepath.Join(dir, "minion.pem"))
	pub, _ := os.ReadFile(filepath.Join(dir, "minion.pub"))
	if !bytes.HasPrefix(pem, []byte("-----BEGIN RSA PRIVATE KEY-----\n")) || string(pub) != k.PublicPEM()+"\n" || len(k.PublicPEM()) != 450 {
		t.Errorf("files are not in Salt's form: %.40q %q", pem, pub)
	}
	again, err := LoadOrCreateKey(dir, "minion", 4096)
	if err != nil || !again.Pub().Equal(k.Pub()) {
		t.Errorf("the second start has another key (%v)", err)
	}
	os.Remove(filepath.Join(dir, "minion.pub"))
	if _, err := LoadOrCreateKey(dir, "minion", 2048); err != nil {
		t.Fatal(err)
	}
	if back, _ := os.ReadFile(filepath.Join(dir, "minion.pub")); !bytes.Equal(back, pub) {
		t.Error("the public file was not made again")
	}
	leftovers, _ := filepath.Glob(filepath.Join(dir, ".tmp*"))
	if len(leftovers) > 0 {
		t.Errorf("temporary files stay: %v", leftovers)
	}
}

func TestBrokenKeyIsAnErrorAndStays(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "minion.pem")
	for _, content := range []string{"", "-----BEGIN RSA PRIVATE KEY-----\nMII"} {
		os.WriteFile(path, []byte(content), 0o400)
		if _, err := LoadOrCreateKey(dir, "minion", 2048); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: %v", content, err)
		}
		if back, _ := os.ReadFile(path); string(back) != content {
			t.Errorf("the file was changed to %q", back)
		}
		os.Remove(path)
	}
}

func TestKeyLinksAreFollowedAndKept(t *testing.T) {
	dir := t.TempDir()
	k, err := LoadOrCreateKey(dir, "vm", 2048)
	if err != nil {
		t.Fatal(err)
	}
	os.Symlink("vm.pem", filepath.Join(dir, "master.pem"))
	os.Symlink("vm.pub", filepath.Join(dir, "master.pub"))
	m, err := LoadOrCreateKey(dir, "master", 2048)
	if err != nil || !m.Pub().Equal(k.Pub()) {
		t.Fatalf("the link was not followed (%v)", err)
	}
	for _, name := range []string{"master.pem", "master.pub"} {
		if info, err := os.Lstat(filepath.Join(dir, name)); err != nil || info.Mode()&os.ModeSymlink == 0 {
			t.Errorf("%s is no link any more", name)
		}
	}
	os.Remove(filepath.Join(dir, "vm.pem"))
	if _, err := LoadOrCreateKey(dir, "master", 2048); err == nil {
		t.Error("a link to nowhere was replaced by a new key")
	}
}

func TestEncryptedPrivateKeyNeedsItsPassphrase(t *testing.T) {
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		t.Skip("no openssl here")
	}
	k := readVectorKeys(t).pair["minion"]
	dir := t.TempDir()
	plain, locked := filepath.Join(dir, "plain.pem"), filepath.Join(dir, "master.pem")
	os.WriteFile(plain, k.PrivatePEM(), 0o600)
	out, err := exec.Command(openssl, "rsa", "-in", plain, "-aes256", "-traditional", "-passout", "pass:secret", "-out", locked).CombinedOutput()
	if err != nil {
		t.Skipf("openssl: %s", out)
	}
	if got, err := LoadKey(dir, "master", "secret"); err != nil || !got.Pub().Equal(k.Pub()) {
		t.Errorf("with the passphrase: %v", err)
	}
	if _, err := LoadKey(dir, "master", "wrong"); err == nil {
		t.Error("a wrong passphrase was taken")
	}
}

func TestKeyDirStates(t *testing.T) {
	keys := readVectorKeys(t)
	pem := []byte(keys.pub["minion"].PEM())
	d := OpenKeyDir(filepath.Join(t.TempDir(), "pki"))
	if ids, err := d.List(KeyAccepted); err != nil || len(ids) != 0 {
		t.Errorf("a directory that does not exist: %v, %v", ids, err)
	}
	for _, id := range []string{"web2", "Web1", "db"} {
		if err := d.Put(KeyPending, id, pem); err != nil {
			t.Fatal(err)
		}
	}
	info, _ := os.Stat(filepath.Join(d.Dir(), KeyPending, "db"))
	if info.Mode().Perm() != 0o644 {
		t.Errorf("mode %v", info.Mode())
	}
	if info, _ := os.Stat(filepath.Join(d.Dir(), KeyPending)); info.Mode().Perm() != 0o755 {
		t.Errorf("mode of the directory %v", info.Mode())
	}
	// What is no id is not listed.
	os.WriteFile(filepath.Join(d.Dir(), KeyPending, ".key_cache"), nil, 0o644)
	os.Mkdir(filepath.Join(d.Dir(), KeyPending, "dir"), 0o755)
	os.Symlink("/etc/passwd", filepath.Join(d.Dir(), KeyPending, "link"))
	if ids, _ := d.List(KeyPending); !slices.Equal(ids, []string{"db", "Web1", "web2"}) {
		t.Errorf("pending: %v", ids)
	}
	if _, err := d.Get(KeyPending, "link"); err == nil {
		t.Error("a link was read as a key")
	}
	if err := d.Accept("db"); err != nil {
		t.Error(err)
	}
	if err := d.Reject("Web1"); err != nil {
		t.Error(err)
	}
	if text, err := d.Get(KeyAccepted, "db"); err != nil || !bytes.Equal(text, pem) {
		t.Errorf("the key is not as it arrived (%v)", err)
	}
	if err := d.Accept("nobody"); !errors.Is(err, ErrNoKey) {
		t.Errorf("accept of nobody: %v", err)
	}
	for _, id := range []string{"../x", "a/b", "", ".", "..", ".key_cache", "a\x00b", "a\nb"} {
		if d.Put(KeyPending, id, pem) == nil || d.Accept(id) == nil || d.Delete(id) == nil || d.Move(id, KeyPending, KeyAccepted) == nil {
			t.Errorf("id %q was used as a file", id)
		}
	}
	if err := d.Put("../elsewhere", "db", pem); err == nil {
		t.Error("a state is any directory")
	}
	d.Put(KeyPending, "bad", []byte("no key"))
	if err := d.Accept("bad"); err == nil {
		t.Error("a text that is no key was accepted")
	}
	d.Put(KeyDenied, "db", pem)
	if err := d.Delete("db"); err != nil || d.Has(KeyAccepted, "db") || d.Has(KeyDenied, "db") {
		t.Errorf("delete left something (%v)", err)
	}
	if err := d.Delete("db"); !errors.Is(err, ErrNoKey) {
		t.Errorf("delete of nobody: %v", err)
	}
}

func TestSessionKeysOutliveTheMaster(t *testing.T) {
	cache := t.TempDir()
	now := time.Now()
	open := func() *SessionKeys {
		s, err := OpenSessionKeys(cache, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open()
	if _, err := s.Crypticle("web", now); !errors.Is(err, ErrNoKey) {
		t.Errorf("an id that never logged in: %v", err)
	}
	key, c, err := s.Get("web", now)
	if err != nil || c == nil || len(key) != 76 {
		t.Fatalf("%q, %v", key, err)
	}
	path := filepath.Join(cache, "sessions", sessionJournal)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("session file: %v", err)
	}
	if again, _, _ := open().Get("web", now); again != key {
		t.Error("the key did not outlive the restart")
	}
	if later, _, _ := s.Get("web", now.Add(2*time.Hour)); later == key {
		t.Error("the key was not replaced when it was old")
	}
	last, _, _ := s.Get("web", now.Add(2*time.Hour))
	text, _ := os.ReadFile(path)
	os.WriteFile(path, text[:len(text)-10], 0o600)
	if torn, _, err := open().Get("web", now); err != nil || torn == last {
		t.Errorf("torn file: %q, %v", torn, err)
	}
	theirs := GenerateKeyString() // of a Python master
	os.WriteFile(filepath.Join(cache, "sessions", "db"), []byte(theirs), 0o600)
	if got, _, err := open().Get("db", now); err != nil || got != theirs {
		t.Errorf("a key in Salt's layout: %q, %v", got, err)
	}
	os.WriteFile(filepath.Join(cache, "sessions", "db"), nil, 0o600)
	if _, c, err := open().Get("db", now); err != nil || c == nil {
		t.Errorf("an empty file: %v", err)
	}
	if _, _, err := s.Get("../web", now); err == nil {
		t.Error("an id is a path")
	}
	if err := s.Forget("web"); err != nil {
		t.Error(err)
	}
	if _, err := s.Crypticle("web", now); !errors.Is(err, ErrNoKey) {
		t.Errorf("after Forget: %v", err)
	}
	if _, err := open().Crypticle("web", now); !errors.Is(err, ErrNoKey) {
		t.Errorf("after Forget and a restart: %v", err)
	}
	// The file does not grow with the keys that were replaced.
	for i := range 3000 {
		if _, _, err := s.Get("web", now.Add(time.Duration(2*i)*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	if text, _ := os.ReadFile(path); bytes.Count(text, []byte("\n")) > 1100 {
		t.Errorf("%d lines for two keys", bytes.Count(text, []byte("\n")))
	}
}

func BenchmarkVerifyTokKnown(b *testing.B) {
	pair := readVectorKeys(b).pair["minion"]
	tok, _ := pair.SignTok()
	c := NewTokCache()
	for b.Loop() {
		if !c.Verify("web", pair.Pub(), tok) {
			b.Fatal("no")
		}
	}
}

func BenchmarkOpenRequest(b *testing.B) {
	c, _ := NewCrypticle(GenerateKeyString())
	tok := bytes.Repeat([]byte{0xfe}, 256)
	p, err := NewSealedRequest(c, 3, sampleReturn(), "minion-00001", NewNonce(), tok, time.Now(), AlgoOAEPSHA1, AlgoPKCS1v15SHA1)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		r, err := DecodeRequest(p)
		if err != nil {
			b.Fatal(err)
		}
		l, err := r.Open(c, time.Now(), 0)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := r.SealReply(nil, c, l.Nonce, nil); err != nil {
			b.Fatal(err)
		}
	}
}
