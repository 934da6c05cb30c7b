package program_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
)

// models returns the real Fluid program files of the test data by their path below the models' folder.
func models(tb testing.TB) map[string][]byte {
	tb.Helper()
	data := os.Getenv("EDL_TESTDATA")
	if data == "" {
		tb.Skip("EDL_TESTDATA is unset: it names the folder of real Fluid models")
	}
	root := os.DirFS(filepath.Join(data, "models"))
	found := map[string][]byte{}
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !(entry.Name() == "__model__" || strings.HasSuffix(name, "_program") || strings.HasSuffix(name, ".bin")) {
			return err
		}
		found[name], err = fs.ReadFile(root, name)
		return err
	})
	if err != nil || len(found) == 0 {
		tb.Fatalf("no models in %s: %v", data, err)
	}
	return found
}

func encode(tb testing.TB, p *program.Program) []byte {
	tb.Helper()
	data, err := p.Encode()
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

func decode(tb testing.TB, data []byte) *program.Program {
	tb.Helper()
	p, err := program.Decode(data, program.Limits{})
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// requireFault demands an error of a kind whose message holds all the words.
func requireFault(tb testing.TB, err error, kind fault.Kind, words ...string) {
	tb.Helper()
	if err == nil {
		tb.Fatalf("no error, want %v", kind)
	}
	if fault.KindOf(err) != kind {
		tb.Errorf("%v: kind %v, want %v", err, fault.KindOf(err), kind)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			tb.Errorf("%q does not say %q", err, word)
		}
	}
}

func types(b *program.Block) []string {
	var all []string
	for _, op := range b.Ops {
		all = append(all, op.Type)
	}
	return all
}

func has(b *program.Block, name string) bool { _, ok := b.Var(name); return ok }

func requireEqual[T comparable](t *testing.T, what string, got, want []T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}
