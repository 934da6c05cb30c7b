package remote

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/edl-go/edl/remote/launch"
)

// A keeper removes what one has left that was killed, and nothing else that a file of the data folder may name.
func TestFilesOfAKilledKeeper(t *testing.T) {
	data, parent := t.TempDir(), t.TempDir()
	left, err := launch.MakeRunDir(parent)
	if err != nil {
		t.Fatal(err)
	}
	foreign := t.TempDir()
	for _, dir := range []string{foreign, left} {
		if err := os.WriteFile(filepath.Join(data, keeperFile), []byte(filepath.Join(dir, "keeper.sock")), 0o600); err != nil {
			t.Fatal(err)
		}
		removeKilled(data, slog.New(slog.DiscardHandler))
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Errorf("a folder that is none of a keeper: %v", err)
	}
	if list, err := os.ReadDir(parent); err != nil || len(list) > 0 {
		t.Errorf("left behind: %v, %v", list, err)
	}
	removeKilled(t.TempDir(), slog.New(slog.DiscardHandler))
}
