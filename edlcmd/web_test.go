package edlcmd

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/edl-go/edl/remote/credential"
	"github.com/edl-go/edl/remote/credential/credentialtest"
)

// A listener serves pages to who shows the token that it prints, or one that "edl token" makes, until that is revoked.
func TestListenerWithPages(t *testing.T) {
	edl, data := edlFile(t), t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, edl, "listen", "--addr", "127.0.0.1:0", "--data-dir", data, "--web", "--quiet")
	cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	var url, address string
	for range 2 {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if at, ok := strings.CutPrefix(line, "dashboard at "); ok {
			url = strings.TrimSpace(at)
		} else if at, ok := strings.CutPrefix(line, "listening on "); ok {
			address = strings.TrimSpace(at)
		}
	}
	base, printed, ok := strings.Cut(url, "/#token=")
	if !ok || !strings.HasPrefix(base, "http://127.0.0.1:") {
		t.Fatalf("it prints %q", url)
	}
	status := func(path, token string) int {
		t.Helper()
		q, err := http.NewRequestWithContext(ctx, http.MethodGet, base+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			q.Header.Set("Authorization", "Bearer "+token)
		}
		a, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		_, _ = io.Copy(io.Discard, a.Body)
		return a.StatusCode
	}
	token := func(args ...string) string {
		t.Helper()
		b, err := exec.CommandContext(ctx, edl, append(append([]string{"token"}, args...), "--data-dir", data)...).Output()
		if err != nil {
			t.Fatalf("edl token %v: %v", args, err)
		}
		return strings.TrimSpace(string(b))
	}
	grafana := token("create", "grafana")
	made := grafana
	if list := token("list"); !strings.Contains(list, "grafana  viewer") || strings.Contains(list, made) {
		t.Errorf("the list of tokens:\n%s", list)
	}
	for _, c := range []struct {
		path, token string
		want        int
	}{{"/healthz", "", 200}, {"/", "", 200}, {"/api/jobs", "", 401}, {"/api/jobs", printed, 200}, {"/metrics", made, 200}, {"/debug/pprof/heap", made, 404}} {
		if got := status(c.path, c.token); got != c.want {
			t.Errorf("%s: %d, want %d", c.path, got, c.want)
		}
	}
	// A token gives credentials, with which its user calls the listener, in the role of the token.
	file := filepath.Join(t.TempDir(), "me.pem")
	asUser := func(args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, edl, args...)
		cmd.Env, cmd.Stdin = append(os.Environ(), "EDL_CREDENTIALS="+file, "EDL_AUTHORITY="+filepath.Join(t.TempDir(), "none.pem")), strings.NewReader(made+"\n")
		b, err := cmd.CombinedOutput()
		return string(b), err
	}
	for range 2 { // the second ones take the place of the first
		if said, err := asUser("login", base, "-o", file); err != nil || !strings.Contains(said, "user/grafana/viewer") {
			t.Fatalf("edl login: %v: %s", err, said)
		}
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if said, err := asUser("jobs", "--listener", address); err != nil {
		t.Errorf("edl jobs: %v: %s", err, said)
	}
	if said, err := asUser("stop", "j", "--listener", address); err == nil || !strings.Contains(said, "want a submitter") {
		t.Errorf("edl stop of a viewer: %v: %s", err, said)
	}
	// One with roles in single namespaces has no machines to see.
	made = token("create", "ann", "--role", "viewer@rank", "--role", "submitter@ads")
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"login", base, "-o", file}, "user/ann/submitter@ads,viewer@rank"}, {[]string{"top", "--once", "--listener", address}, "WAITS FOR"},
		{[]string{"jobs", "--namespace", "ads", "--listener", address}, "RECORDS"}, {[]string{"node", "list", "--listener", address}, "want a viewer of all namespaces"},
		{[]string{"stop", "j", "--namespace", "rank", "--listener", address}, `got job "rank.j"`},
	} {
		if said, _ := asUser(c.args...); !strings.Contains(said, c.says) {
			t.Errorf("edl %v: %s, want %q", c.args, said, c.says)
		}
	}
	if got := status("/api/jobs", made); got != 200 {
		t.Errorf("the jobs of a namespace: %d", got)
	}
	made = grafana
	if said, err := asUser("login", base, "-o", file); err != nil {
		t.Errorf("edl login: %v: %s", err, said)
	}
	token("revoke", "grafana")
	if said, err := asUser("jobs", "--listener", address); err == nil || !strings.Contains(said, "a token that this listener does not know, or no longer") {
		t.Errorf("edl jobs with the credentials of a token that was revoked: %v: %s", err, said)
	}
	for _, c := range []struct{ url, want string }{{base, "token that is not known"}, {"http://example.org", "no URL of pages"}, {"https://user@127.0.0.1", "no URL of pages"}} {
		if said, err := asUser("login", c.url, "-o", file); err == nil || !strings.Contains(said, c.want) {
			t.Errorf("edl login %s: %v: %s", c.url, err, said)
		}
	}
	if got := status("/metrics", made); got != 401 {
		t.Errorf("with a token that was revoked: %d", got)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if rest, _ := io.ReadAll(lines); len(rest) > 0 {
		t.Errorf("it prints more: %s", rest)
	}
	if code := exitCode(t, cmd); code != 130 {
		t.Errorf("it ends with %d", code)
	}
	b, err := os.ReadFile(filepath.Join(data, credential.TokenFile))
	if err != nil || strings.Contains(string(b), printed) {
		t.Errorf("the printed token is kept: %v", err)
	}
}

// Pages that other machines reach are never served in clear text.
func TestPagesBeyondLoopbackAreSecret(t *testing.T) {
	authority, err := credential.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]bool{"127.0.0.1:0": false, "localhost:80": false, "[::1]:80": false, ":80": true, "0.0.0.0:80": true, "[::]:80": true, "10.0.0.5:80": true, "example.org:80": true} {
		secret, err := (&webFlags{address: address}).secret(authority)
		if err != nil || (secret != nil) != want {
			t.Errorf("%s: TLS is %v, %v", address, secret != nil, err)
		}
	}
}

// The pages show the certificate of --web-cert, the next one as soon as both files have it, and the last one while they do not go together.
func TestCertificateOfPages(t *testing.T) {
	dir := t.TempDir()
	f := &webFlags{address: "127.0.0.1:0", certificate: filepath.Join(dir, "cert.pem"), key: filepath.Join(dir, "key.pem")}
	if _, err := f.secret(nil); err == nil {
		t.Error("files that are not there are taken")
	}
	write := func(path string, b []byte) {
		t.Helper()
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var pairs [2]struct{ certificate, key []byte }
	for i := range pairs {
		own := credentialtest.Issue(t, credential.Name{Kind: credential.User, User: strings.Repeat("a", 1+i), Access: credential.Viewer}, time.Hour)
		pairs[i].certificate, pairs[i].key, _ = own.Parts()
	}
	write(f.certificate, pairs[0].certificate)
	write(f.key, pairs[0].key)
	secret, err := f.secret(nil)
	if err != nil {
		t.Fatal(err)
	}
	port, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	defer func() { port.Close(); <-ended }()
	go func() {
		defer close(ended)
		for {
			conn, err := port.Accept()
			if err != nil {
				return
			}
			_ = tls.Server(conn, secret).HandshakeContext(t.Context()) // the client says whether it is well
			conn.Close()
		}
	}()
	expect := func(when string, want []byte) {
		t.Helper()
		conn, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}).DialContext(t.Context(), "tcp", port.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		block, _ := pem.Decode(want)
		if got := conn.(*tls.Conn).ConnectionState().PeerCertificates[0].Raw; !bytes.Equal(got, block.Bytes) {
			t.Errorf("%s they show another certificate", when)
		}
	}
	expect("first", pairs[0].certificate)
	write(f.certificate, pairs[1].certificate)
	expect("with the key of another one", pairs[0].certificate)
	write(f.key, pairs[1].key)
	expect("with both new files", pairs[1].certificate)
	if err := os.Remove(f.key); err != nil {
		t.Fatal(err)
	}
	expect("without the file of the key", pairs[1].certificate)
}
