package edlcmd

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

// The bill of materials has what the binary was built from: modules in the place of others, not those others, and the standard library.
func TestBillOfMaterials(t *testing.T) {
	b := bomOf(&debug.BuildInfo{GoVersion: "go1.26.8 X:simd", Main: debug.Module{Path: module, Version: "(devel)"}, Deps: []*debug.Module{
		{Path: "example.org/a", Version: "v1.2.3+incompatible"},
		{Path: "example.org/b", Version: "v1.0.0", Replace: &debug.Module{Path: "example.org/fork", Version: "v1.0.1"}},
		{Path: "example.org/c", Version: "v0.0.0", Replace: &debug.Module{Path: "../c"}},
	}}, "devel")
	if m := b.Metadata.Component; m.URL != "pkg:golang/"+module+"@devel" || m.Type != "application" {
		t.Errorf("it is of %+v", m)
	}
	var urls []string
	for _, c := range b.Components {
		urls = append(urls, c.URL)
	}
	want := []string{"pkg:golang/std@1.26.8", "pkg:golang/example.org/a@v1.2.3%2Bincompatible", "pkg:golang/example.org/fork@v1.0.1", "pkg:golang/example.org/c@v0.0.0"}
	if !slices.Equal(urls, want) {
		t.Errorf("it has %v, want %v", urls, want)
	}
}

func TestVersionPrintsBillOfMaterials(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), edlFile(t), "version", "--sbom").Output()
	if err != nil {
		t.Fatal(err)
	}
	var b bom
	if err := json.NewDecoder(bytes.NewReader(out)).Decode(&b); err != nil {
		t.Fatal(err)
	}
	refs := map[string]bool{}
	for _, c := range b.Components {
		if refs[c.Ref] || c.Version == "" {
			t.Errorf("a component %+v without a version, or twice", c)
		}
		refs[c.Ref] = true
	}
	if b.Format != "CycloneDX" || len(b.Components) == 0 { // Go records no modules in the binary of a test
		t.Fatalf("it prints %s", out)
	}
	if of, err := exec.CommandContext(t.Context(), edlFile(t), "version", "--sbom", "--binary", edlFile(t)).Output(); err != nil || !bytes.Equal(of, out) {
		t.Errorf("of its own file it prints %s: %v", of, err)
	}
	if std := b.Components[0]; !strings.HasPrefix(runtime.Version(), "go"+std.Version) {
		t.Errorf("the standard library is %s of %s", std.Version, runtime.Version())
	}
}
