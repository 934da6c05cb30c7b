package lint

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/edl-go/edl/ops"
	_ "github.com/edl-go/edl/ops/all"
)

// Every family of ops has the tests that hold each of its ops to the checks of all ops, so a new family cannot leave them out.
func TestEachFamilyHasItsLaws(t *testing.T) {
	families := map[string]bool{}
	for _, def := range ops.All() {
		families[def.Family()] = true
	}
	for family := range families {
		source, err := os.ReadFile(filepath.Join("..", "..", "ops", family, "laws_test.go"))
		if err != nil {
			t.Errorf("family %s: %v", family, err)
			continue
		}
		if !regexp.MustCompile(`lawcheck\.Law\(t, "` + family + `"`).Match(source) {
			t.Errorf("family %s: no lawcheck.Law in laws_test.go", family)
		}
	}
}
