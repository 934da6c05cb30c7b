package main

import (
	"os"
	"strings"
	"testing"

	"github.com/edl-go/edl/ops"
)

func TestThePageHasTheTableOfThisBuild(t *testing.T) {
	page, err := os.ReadFile("../../docs/ops.md")
	if err != nil {
		t.Fatal(err)
	}
	want, err := withTable(string(page))
	if err != nil {
		t.Fatal(err)
	}
	if string(page) != want {
		t.Error("docs/ops.md does not have the table of the registry: run go generate ./docs")
	}
	for _, d := range ops.All() {
		if d.Class != ops.Backward && !strings.Contains(want, "\n| `"+d.Type+"` |") {
			t.Errorf("the table lacks %s", d.Type)
		}
	}
}

func TestConflictsInTheTableGo(t *testing.T) {
	page, err := withTable("# Ops\n\n" + mark + "<<<<<<< HEAD\n| `relu` |\n=======\n>>>>>>> other\n")
	if err != nil || strings.Contains(page, "<<<<") || !strings.HasPrefix(page, "# Ops\n\n"+mark) {
		t.Errorf("%v\n%.200s", err, page)
	}
	if _, err := withTable("# Ops\n"); err == nil {
		t.Error("a page without the mark is accepted")
	}
}
