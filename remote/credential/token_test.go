package credential

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/edl-go/edl/fault"
)

// A token counts from its creation to its end, at every process that has the file, and the file does not have it.
func TestTokens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data", TokenFile)
	listener, command := OpenTokens(path), OpenTokens(path)
	refused := func(secret, why string) {
		t.Helper()
		if name, err := listener.Check(secret); !errors.Is(err, fault.Denied) {
			t.Errorf("%s: %v, %v", why, name, err)
		}
	}
	refused("", "no token")
	secret, err := command.Create(Name{User: "grafana", Access: Viewer}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if name, err := listener.Check(secret); err != nil || name != (Name{Kind: User, User: "grafana", Access: Viewer, Token: sumOf(secret)}) {
		t.Errorf("a token: %v, %v", name, err)
	}
	if _, err := command.Create(Name{User: "grafana", Access: Admin}, 0); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("a second token of the same name: %v", err)
	}
	refused(secret[:len(secret)-1], "a part of a token")
	refused(secret+"x", "more than a token")
	refused(sumOf(secret), "the sum of a token")
	refused(strings.Repeat("x", 1<<20), "a long token")
	b, err := os.ReadFile(path)
	if err != nil || strings.Contains(string(b), secret) || strings.Contains(string(b), secret[len(tokenPrefix):]) {
		t.Errorf("the file has the token: %v", err)
	}
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if err := command.Revoke("grafana"); err != nil {
		t.Error(err)
	}
	refused(secret, "a token that was revoked")
	if err := command.Revoke("grafana"); !errors.Is(err, fault.NotFound) {
		t.Errorf("revoked twice: %v", err)
	}
	short, err := command.Create(Name{User: "short", Access: Admin}, time.Nanosecond)
	if err != nil {
		t.Fatal(err)
	}
	refused(short, "a token that has expired")
	lent := listener.Lend("me", Viewer)
	if _, err := listener.Check(lent); err != nil {
		t.Errorf("a token that was lent: %v", err)
	}
	if _, err := command.Check(lent); !errors.Is(err, fault.Denied) {
		t.Errorf("a token that another process has lent: %v", err)
	}
}

// A token has the roles in single namespaces that it was made with, and one that was made before there were such roles has its role in all.
func TestTokensOfNamespaces(t *testing.T) {
	path := filepath.Join(t.TempDir(), TokenFile)
	tokens := OpenTokens(path)
	old, token := newToken(Name{User: "old", Access: Submitter}, time.Hour)
	earlier := fmt.Sprintf(`{"tokens": [{"name": "old", "role": "submitter", "sha256": %q, "created": %q, "expires": %q}]}`, token.Sum, token.Created.Format(time.RFC3339), token.Expires.Format(time.RFC3339))
	if err := os.WriteFile(path, []byte(earlier), 0o600); err != nil {
		t.Fatal(err)
	}
	secret, err := tokens.Create(Name{User: "ann", Within: "submitter@ads,viewer@rank"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for token, want := range map[string]string{old: "submitter", secret: "submitter@ads,viewer@rank"} {
		if name, err := OpenTokens(path).Check(token); err != nil || name.Roles() != want {
			t.Errorf("%s: %v, want %s", name.Roles(), err, want)
		}
	}
}

// A file that others may change, or that is damaged, has no tokens. Those that were lent count.
func TestTokensOfABadFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), TokenFile)
	tokens := OpenTokens(path)
	secret, err := tokens.Create(Name{User: "a", Access: Admin}, 0)
	if err != nil {
		t.Fatal(err)
	}
	lent := tokens.Lend("me", Viewer)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"cut": string(good[:len(good)/2]), "another role": strings.Replace(string(good), "admin", "root", 1), "long": string(good) + strings.Repeat(" ", maxTokenFile)} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := tokens.Check(secret); err == nil {
			t.Errorf("%s: a token counts", name)
		}
		if _, err := tokens.Create(Name{User: "b", Access: Admin}, 0); !errors.Is(err, fault.Corrupt) {
			t.Errorf("%s: a token was added: %v", name, err)
		}
	}
	if err := os.WriteFile(path, good, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := tokens.Check(secret); err != nil {
		t.Errorf("the good file again: %v", err)
	}
	if runtime.GOOS != "windows" {
		if err := os.Chmod(path, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := tokens.Check(secret); !errors.Is(err, fault.InvalidArgument) {
			t.Errorf("a file that others may read: %v", err)
		}
	}
	if _, err := tokens.Check(lent); err != nil {
		t.Errorf("a token that was lent: %v", err)
	}
	for _, name := range []string{"", "a\nb", strings.Repeat("x", 101)} {
		if _, err := OpenTokens(filepath.Join(t.TempDir(), TokenFile)).Create(Name{User: name, Access: Viewer}, 0); !errors.Is(err, fault.InvalidArgument) {
			t.Errorf("name %q: %v", name, err)
		}
	}
}
