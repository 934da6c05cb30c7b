package program_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
)

func TestSaveAndLoad(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "fit.pb")
	p := regression(t)
	for range 2 { // the second time it replaces a file
		if err := p.Save(path); err != nil {
			t.Fatal(err)
		}
	}
	loaded, err := program.Load(path, program.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(encode(t, loaded), encode(t, p)) {
		t.Error("the file holds another program")
	}
	entries, err := os.ReadDir(folder)
	if err != nil || len(entries) != 1 {
		t.Errorf("%d files were left in the folder, %v", len(entries), err)
	}
	_, err = program.Load(filepath.Join(folder, "absent.pb"), program.Limits{})
	requireFault(t, err, fault.NotFound, "absent.pb")
	_, err = program.Load(path, program.Limits{Bytes: 10})
	requireFault(t, err, fault.TooLarge, "fit.pb")
	if err := os.WriteFile(path, []byte("not a program"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = program.Load(path, program.Limits{})
	requireFault(t, err, fault.Corrupt, "fit.pb", "byte ")
}
