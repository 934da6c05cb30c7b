package framework_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// modelFiles returns the content of each file of the real Fluid models in the
// test data that has one of the suffixes, by its path below the models' folder.
// It skips the test when there is no test data.
func modelFiles(t *testing.T, suffixes ...string) map[string][]byte {
	t.Helper()
	data := os.Getenv("EDL_TESTDATA")
	if data == "" {
		t.Skip("EDL_TESTDATA is unset: it names the folder of real Fluid models to decode")
	}
	models := os.DirFS(filepath.Join(data, "models"))
	found := make(map[string][]byte)
	err := fs.WalkDir(models, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || !hasAnySuffix(name, suffixes) {
			return err
		}
		found[name], err = fs.ReadFile(models, name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		t.Fatalf("no file that ends in %q under %s/models", suffixes, data)
	}
	return found
}

func hasAnySuffix(name string, suffixes []string) bool {
	for _, suffix := range suffixes {
		if strings.HasSuffix(name, suffix) {
			return true
		}
	}
	return false
}
