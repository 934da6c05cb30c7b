package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

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
