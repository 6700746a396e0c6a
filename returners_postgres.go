// A small client of PostgreSQL: one connection, one statement with parameters at
// a time, all values as text.
//
// The law of this file: it speaks version 3 of the protocol with the extended
// query messages, so that no value is ever part of a statement's text; it knows
// nothing of Salt. It is here in place of a driver because the returner needs
// four statements: the small driver brings database/sql and a pool, the large one
// more code than the whole transport of this program. Whatever a server sends is
// read with limits.
package main

import (
	"bufio"
	"context"
	"crypto/hmac"
	"crypto/md5"
	"crypto/pbkdf2"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// pgMaxMessage bounds one message of a server, pgMaxIterations the work that a
// server may ask for at login.
const (
	pgMaxMessage    = 1 << 30
	pgMaxIterations = 1_000_000
)

// pgConfig says where and as whom to connect.
type pgConfig struct {
	Host, Port, User, Password, Database string
	// SSLMode is libpq's: disable, prefer (also ""), require, verify-ca, verify-full.
	SSLMode, SSLCert, SSLKey, SSLRootCert string
}

// pgConn is a connection that is ready for a statement.
type pgConn struct {
	conn net.Conn
	r    *bufio.Reader
}

// pgError is an error that the server reports.
type pgError struct{ Severity, Code, Message string }

func (e *pgError) Error() string { return e.Severity + ": " + e.Message + " (" + e.Code + ")" }

// dialPostgres connects and logs in.
func dialPostgres(ctx context.Context, c pgConfig) (*pgConn, error) {
	network, addr := "tcp", net.JoinHostPort(c.Host, c.Port)
	if strings.HasPrefix(c.Host, "/") {
		network, addr = "unix", c.Host+"/.s.PGSQL."+c.Port
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	p := &pgConn{conn: conn, r: bufio.NewReader(conn)}
	if t, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(t)
	}
	if network == "tcp" && c.SSLMode != "disable" && c.SSLMode != "allow" {
		if err := p.startTLS(ctx, c); err != nil {
			conn.Close()
			return nil, err
		}
	}
	if err := p.login(c); err != nil {
		p.conn.Close()
		return nil, err
	}
	return p, nil
}

// Close says goodbye and ends the connection.
func (p *pgConn) Close() {
	_ = p.conn.SetDeadline(time.Now().Add(time.Second))
	_ = p.send('X', nil)
	p.conn.Close()
}

// startTLS asks for an encrypted connection and verifies the server as the mode
// says: prefer and require encrypt without knowing with whom, as with libpq.
func (p *pgConn) startTLS(ctx context.Context, c pgConfig) error {
	if _, err := p.conn.Write([]byte{0, 0, 0, 8, 4, 210, 22, 47}); err != nil {
		return err
	}
	answer, err := p.r.ReadByte()
	if err != nil {
		return err
	}
	if answer != 'S' {
		if c.SSLMode == "" || c.SSLMode == "prefer" {
			return nil
		}
		return errors.New("the server does not offer TLS, which sslmode asks for")
	}
	if p.r.Buffered() > 0 {
		return errors.New("the server sent data before TLS began")
	}
	conf := &tls.Config{ServerName: c.Host, InsecureSkipVerify: true}
	if c.SSLCert != "" {
		pair, err := tls.LoadX509KeyPair(c.SSLCert, c.SSLKey)
		if err != nil {
			return fmt.Errorf("sslcert: %w", err)
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	if strings.HasPrefix(c.SSLMode, "verify-") || c.SSLRootCert != "" && c.SSLMode == "require" {
		var roots *x509.CertPool
		if c.SSLRootCert != "" {
			pem, err := os.ReadFile(c.SSLRootCert)
			if err != nil {
				return fmt.Errorf("sslrootcert: %w", err)
			}
			roots = x509.NewCertPool()
			if !roots.AppendCertsFromPEM(pem) {
				return errors.New("sslrootcert holds no certificate")
			}
		}
		name := ""
		if c.SSLMode == "verify-full" {
			name = c.Host
		}
		conf.VerifyConnection = func(s tls.ConnectionState) error {
			opts := x509.VerifyOptions{Roots: roots, DNSName: name, Intermediates: x509.NewCertPool()}
			for _, cert := range s.PeerCertificates[1:] {
				opts.Intermediates.AddCert(cert)
			}
			_, err := s.PeerCertificates[0].Verify(opts)
			return err
		}
	}
	t := tls.Client(p.conn, conf)
	if err := t.HandshakeContext(ctx); err != nil {
		return fmt.Errorf("TLS with the database: %w", err)
	}
	p.conn, p.r = t, bufio.NewReader(t)
	return nil
}

// send writes one message; kind 0 has no letter.
func (p *pgConn) send(kind byte, body []byte) error {
	var out []byte
	if kind != 0 {
		out = append(out, kind)
	}
	out = binary.BigEndian.AppendUint32(out, uint32(len(body)+4))
	_, err := p.conn.Write(append(out, body...))
	return err
}

// receive reads the next message that is not a notice.
func (p *pgConn) receive() (kind byte, body []byte, err error) {
	for {
		var head [5]byte
		if _, err := io.ReadFull(p.r, head[:]); err != nil {
			return 0, nil, err
		}
		n := int64(binary.BigEndian.Uint32(head[1:])) - 4
		if n < 0 || n > pgMaxMessage {
			return 0, nil, fmt.Errorf("the server sent a message of %d bytes", n)
		}
		var b strings.Builder
		if _, err := io.CopyN(&b, p.r, n); err != nil {
			return 0, nil, err
		}
		switch body = []byte(b.String()); head[0] {
		case 'N', 'S', 'A':
		case 'E':
			return head[0], body, readPgError(body)
		default:
			return head[0], body, nil
		}
	}
}

func readPgError(body []byte) error {
	e := &pgError{}
	for _, field := range strings.Split(string(body), "\x00") {
		if field == "" {
			continue
		}
		switch field[0] {
		case 'S':
			e.Severity = field[1:]
		case 'C':
			e.Code = field[1:]
		case 'M':
			e.Message = oneLine(field[1:])
		}
	}
	return e
}

// login sends who we are and answers the server's questions.
func (p *pgConn) login(c pgConfig) error {
	body := []byte{0, 3, 0, 0}
	for _, s := range []string{"user", c.User, "database", c.Database, "client_encoding", "UTF8", "application_name", "salt"} {
		body = append(append(body, s...), 0)
	}
	if err := p.send(0, append(body, 0)); err != nil {
		return err
	}
	var scram *pgScram
	for {
		kind, body, err := p.receive()
		if err != nil {
			return err
		}
		switch kind {
		case 'Z':
			return nil
		case 'K':
			continue
		case 'R':
			if len(body) < 4 {
				return errors.New("the server sent a broken question at login")
			}
		default:
			return fmt.Errorf("the server sent message %q at login", string(kind))
		}
		ask, rest := binary.BigEndian.Uint32(body), body[4:]
		var answer []byte
		switch ask {
		case 0:
			if scram != nil && !scram.proved {
				return errors.New("the server did not prove that it knows the password")
			}
			continue
		case 3:
			answer = append([]byte(c.Password), 0)
		case 5:
			inner := md5.Sum([]byte(c.Password + c.User))
			outer := md5.Sum(append([]byte(hex.EncodeToString(inner[:])), rest...))
			answer = append([]byte("md5"+hex.EncodeToString(outer[:])), 0)
		case 10:
			if !hasString(strings.Split(string(rest), "\x00"), "SCRAM-SHA-256") {
				return errors.New("the server knows no way to log in that we know")
			}
			scram = newPgScram(c.Password)
			first := "n,," + scram.clientFirst
			answer = binary.BigEndian.AppendUint32([]byte("SCRAM-SHA-256\x00"), uint32(len(first)))
			answer = append(answer, first...)
		case 11, 12:
			if scram == nil {
				return errors.New("the server sent a broken question at login")
			}
			if ask == 12 {
				if err := scram.checkServer(string(rest)); err != nil {
					return err
				}
				continue
			}
			final, err := scram.final(string(rest))
			if err != nil {
				return err
			}
			answer = []byte(final)
		default:
			return fmt.Errorf("the server asks for login method %d, which is not supported", ask)
		}
		if err := p.send('p', answer); err != nil {
			return err
		}
	}
}

// pgScram is one login by SCRAM-SHA-256 (RFC 7677).
type pgScram struct {
	password, nonce, clientFirst string
	signature                    []byte
	proved                       bool
}

func newPgScram(password string) *pgScram {
	s := &pgScram{password: password, nonce: NewNonce()}
	s.clientFirst = "n=,r=" + s.nonce
	return s
}

func hmacSHA256(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

func (s *pgScram) final(serverFirst string) (string, error) {
	var nonce, salt string
	iterations := 0
	for _, part := range strings.Split(serverFirst, ",") {
		switch k, v, _ := strings.Cut(part, "="); k {
		case "r":
			nonce = v
		case "s":
			salt = v
		case "i":
			iterations, _ = strconv.Atoi(v)
		}
	}
	rawSalt, err := base64.StdEncoding.DecodeString(salt)
	if err != nil || iterations < 1 || iterations > pgMaxIterations || len(nonce) <= len(s.nonce) || !strings.HasPrefix(nonce, s.nonce) {
		return "", errors.New("the server sent a broken SCRAM message")
	}
	salted, err := pbkdf2.Key(sha256.New, s.password, rawSalt, iterations, 32)
	if err != nil {
		return "", err
	}
	withoutProof := "c=biws,r=" + nonce
	auth := s.clientFirst + "," + serverFirst + "," + withoutProof
	client := hmacSHA256(salted, "Client Key")
	stored := sha256.Sum256(client)
	proof := hmacSHA256(stored[:], auth)
	for i := range proof {
		proof[i] ^= client[i]
	}
	s.signature = hmacSHA256(hmacSHA256(salted, "Server Key"), auth)
	return withoutProof + ",p=" + base64.StdEncoding.EncodeToString(proof), nil
}

func (s *pgScram) checkServer(final string) error {
	got, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(final, "v="))
	if err != nil || s.signature == nil || !hmac.Equal(got, s.signature) {
		return errors.New("the server does not know the password itself")
	}
	s.proved = true
	return nil
}

// Exec runs one statement with its parameters ($1 …) and returns the rows, with
// nil for NULL.
func (p *pgConn) Exec(sql string, params ...string) ([][]any, error) {
	var out []byte
	message := func(kind byte, body []byte) {
		out = append(out, kind)
		out = binary.BigEndian.AppendUint32(out, uint32(len(body)+4))
		out = append(out, body...)
	}
	message('P', append(append([]byte{0}, sql...), 0, 0, 0))
	bind := []byte{0, 0, 0, 0}
	bind = binary.BigEndian.AppendUint16(bind, uint16(len(params)))
	for _, v := range params {
		bind = binary.BigEndian.AppendUint32(bind, uint32(len(v)))
		bind = append(bind, v...)
	}
	message('B', append(bind, 0, 0))
	message('E', []byte{0, 0, 0, 0, 0})
	message('S', nil)
	if _, err := p.conn.Write(out); err != nil {
		return nil, err
	}
	var rows [][]any
	var failed error
	for {
		kind, body, err := p.receive()
		var reported *pgError
		if errors.As(err, &reported) {
			failed = err
			continue
		}
		switch {
		case err != nil:
			return nil, errors.Join(failed, err)
		case kind == 'Z':
			return rows, failed
		case kind == 'D':
			row, err := readPgRow(body)
			if err != nil {
				return nil, err
			}
			rows = append(rows, row)
		}
	}
}

func readPgRow(body []byte) ([]any, error) {
	broken := errors.New("the server sent a broken row")
	if len(body) < 2 {
		return nil, broken
	}
	n := int(binary.BigEndian.Uint16(body))
	body = body[2:]
	var row []any
	for range n {
		if len(body) < 4 {
			return nil, broken
		}
		size := int32(binary.BigEndian.Uint32(body))
		body = body[4:]
		if size < 0 {
			row = append(row, nil)
			continue
		}
		if int(size) > len(body) {
			return nil, broken
		}
		row = append(row, string(body[:size]))
		body = body[size:]
	}
	return row, nil
}
