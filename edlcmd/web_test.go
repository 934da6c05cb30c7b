package edlcmd

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edl-go/edl/remote/credential"
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
	var url string
	for range 2 {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if at, ok := strings.CutPrefix(line, "dashboard at "); ok {
			url = strings.TrimSpace(at)
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
	made := token("create", "grafana")
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
	token("revoke", "grafana")
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
