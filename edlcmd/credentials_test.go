package edlcmd

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/edl-go/edl/remote/credential"
	"github.com/edl-go/edl/remote/credential/credentialtest"
)

// Who speaks to a listener with credentials that soon expire is told, and so does "edl doctor"; who has them for long, or speaks to none, is not.
func TestCredentialsThatSoonExpire(t *testing.T) {
	file := filepath.Join(t.TempDir(), "alice.pem")
	t.Setenv("EDL_CREDENTIALS", file)
	nobody := []string{"jobs", "--listener", "127.0.0.1:1"}
	for _, c := range []struct {
		life time.Duration
		args []string
		says string // empty: nothing of it
	}{
		{3 * 24 * time.Hour, nobody, "your credentials of user/alice/viewer expire on"},
		{30 * 24 * time.Hour, nobody, ""},
		{3 * 24 * time.Hour, []string{"version"}, ""},
		{-time.Hour, nobody, "valid until"},
		{3 * 24 * time.Hour, []string{"doctor"}, "ask for new ones"},
	} {
		own := credentialtest.Issue(t, credential.Name{Kind: credential.User, User: "alice", Access: credential.Viewer}, c.life)
		if err := os.WriteFile(file, own.PEM(), 0o600); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		run(t.Context(), c.args, nil, &out, &out)
		if text := out.String(); !strings.Contains(text, c.says) || c.says == "" && strings.Contains(text, "expire") {
			t.Errorf("edl %v with %v left says\n%s", c.args, c.life, text)
		}
	}
}
