package docs

import (
	"os"
	"strings"
	"testing"

	"github.com/edl-go/edl/ops"
	_ "github.com/edl-go/edl/ops/all"
)

// The page of ops ends with the table of the registry, and has a row for every op that is no gradient.
func TestTheTableOfOpsIsUpToDate(t *testing.T) {
	page, err := os.ReadFile("ops.md")
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	if err := ops.Table(&table); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(string(page), "\n"+table.String()) {
		t.Error("ops.md does not have the table of the registry: run go generate ./docs")
	}
	for _, d := range ops.All() {
		if d.Class != ops.Backward && !strings.Contains(table.String(), "\n| `"+d.Type+"` |") {
			t.Errorf("the table lacks %s", d.Type)
		}
	}
}
