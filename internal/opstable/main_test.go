package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestConflictsInTheTableGo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ops.md")
	if err := os.WriteFile(path, []byte("# Ops\n\n"+mark+"<<<<<<< HEAD\n| `relu` |\n=======\n>>>>>>> other\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := rewrite(path); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text := string(page); strings.Contains(text, "<<<<") || !strings.HasPrefix(text, "# Ops\n\n"+mark) || !strings.Contains(text, "\n| `relu` | 0.11 |") {
		t.Errorf("%.300s", text)
	}
	if _, err := withTable("# Ops\n"); err == nil {
		t.Error("a page without the mark is accepted")
	}
}
