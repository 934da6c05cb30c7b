// Opstable writes the table of ops at the end of docs/ops.md from the registry.
//
// Usage, anywhere in the module:
//
//	go generate ./docs
//
// When a merge leaves conflicts in the table, run it as well: it replaces all that stands after the mark.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	_ "github.com/edl-go/edl/ops/all"
)

// mark is the line after which the table stands.
const mark = "<!-- All below this line is generated: run `go generate ./docs`, also when a merge leaves conflicts here. -->\n"

func main() {
	path := flag.String("page", "ops.md", "the page that ends with the table")
	flag.Parse()
	if err := rewrite(*path); err != nil {
		fmt.Fprintln(os.Stderr, "opstable:", err)
		os.Exit(1)
	}
}

func rewrite(path string) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	page, err := withTable(string(old))
	if err != nil || page == string(old) {
		return err
	}
	return os.WriteFile(path, []byte(page), 0o644)
}

// withTable returns a page with the table of this build after its mark.
func withTable(page string) (string, error) {
	text, _, found := strings.Cut(page, mark)
	if !found {
		return "", fault.E(fault.InvalidArgument, fault.Got("a page without the mark of the table"), fault.Want("the line "+strings.TrimSpace(mark)))
	}
	var table strings.Builder
	if err := ops.Table(&table); err != nil {
		return "", err
	}
	return text + mark + "\n" + table.String(), nil
}
