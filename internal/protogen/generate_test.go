package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	shapeSource = `syntax = "proto3";
package shape;
option go_package = "example.org/m/proto/shape";
// A rectangle's size.
message Size { int64 width = 1; }
`
	serverSource = `syntax = "proto3";
package server;
import "proto/shape/shape.proto";
import "google/protobuf/empty.proto";
option go_package = "example.org/m/proto/server";
service Sizes { rpc Set(shape.Size) returns (google.protobuf.Empty); }
`
)

// newModule writes files by their slash-separated paths into a temporary folder
// that stands for a module's root.
func newModule(t *testing.T, files map[string]string) module {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		target := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(target, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return module{Path: "example.org/m", Dir: root}
}

func generateAll(t *testing.T, module module) (map[string][]byte, error) {
	t.Helper()
	sources, err := findSources(module.Dir)
	if err != nil {
		t.Fatal(err)
	}
	return generate(t.Context(), module, sources)
}

func TestCodeLandsBesideItsSourceAndServicesGetGRPC(t *testing.T) {
	generated, err := generateAll(t, newModule(t, map[string]string{
		"proto/shape/shape.proto":   shapeSource,
		"proto/server/server.proto": serverSource,
	}))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"proto/server/server.pb.go",
		"proto/server/server_grpc.pb.go",
		"proto/shape/shape.pb.go",
	}
	if got := slices.Sorted(maps.Keys(generated)); !slices.Equal(got, want) {
		t.Errorf("generated %q, want %q", got, want)
	}
	for name, part := range map[string]string{
		"proto/shape/shape.pb.go":        "// A rectangle's size.\ntype Size struct",
		"proto/server/server_grpc.pb.go": "type SizesServer interface",
	} {
		if !strings.Contains(string(generated[name]), part) {
			t.Errorf("%s lacks %q", name, part)
		}
	}
}

func TestGenerateNamesTheFaultOfASource(t *testing.T) {
	tests := map[string]struct {
		source string
		want   string
	}{
		"syntax": {
			source: "syntax = \"proto3\";\nmessage {",
			want:   "proto/shape/shape.proto:2:9",
		},
		"missing import": {
			source: "syntax = \"proto3\";\nimport \"proto/absent.proto\";",
			want:   "proto/absent.proto",
		},
		"misplaced Go package": {
			source: strings.Replace(shapeSource, "proto/shape", "proto/other", 1),
			want:   `want "example.org/m/proto/shape"`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := generateAll(t, newModule(t, map[string]string{"proto/shape/shape.proto": test.source}))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v does not mention %s", err, test.want)
			}
		})
	}
}

func TestChangesNameEveryFileAndBringItUpToDate(t *testing.T) {
	module := newModule(t, map[string]string{
		"proto/kept.go":       "package proto",
		"proto/a/same.pb.go":  "same",
		"proto/a/old.pb.go":   "old",
		"proto/a/stale.pb.go": "stale",
	})
	generated := map[string][]byte{
		"proto/a/same.pb.go": []byte("same"),
		"proto/a/old.pb.go":  []byte("new"),
		"proto/a/more.pb.go": []byte("more"),
	}
	needed, err := compare(module.Dir, generated)
	if err != nil {
		t.Fatal(err)
	}
	report := needed.outOfDate()
	if report == nil {
		t.Fatal("out of date files were not reported")
	}
	for name, named := range map[string]bool{
		"old.pb.go": true, "more.pb.go": true, "stale.pb.go": true,
		"same.pb.go": false, "kept.go": false,
	} {
		if got := strings.Contains(report.Error(), name); got != named {
			t.Errorf("the report names %s: %t, want %t", name, got, named)
		}
	}

	if err := needed.apply(module.Dir); err != nil {
		t.Fatal(err)
	}
	again, err := compare(module.Dir, generated)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.outOfDate(); err != nil {
		t.Errorf("after apply: %v", err)
	}
	if _, err := os.Stat(filepath.Join(module.Dir, "proto", "kept.go")); err != nil {
		t.Errorf("a file that is not generated was touched: %v", err)
	}
}
