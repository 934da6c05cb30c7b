package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	links = regexp.MustCompile(`(?:href|src)="([^"]+)"`)
	ids   = regexp.MustCompile(`\bid="([^"]+)"`)
)

// Every link of the site leads to a file of the site and a heading of it, nothing comes from another site, and the search knows the pages.
func TestSite(t *testing.T) {
	out := filepath.Join(t.TempDir(), "site")
	n, err := write("../..", out)
	if err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(out)
	if err != nil {
		t.Fatal(err)
	}
	texts, headings := map[string]string{}, map[string]map[string]bool{}
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(out, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		texts[f.Name()], headings[f.Name()] = string(b), map[string]bool{}
		for _, id := range ids.FindAllStringSubmatch(string(b), -1) {
			headings[f.Name()][id[1]] = true
		}
	}
	pages := 0
	for name, text := range texts {
		if !strings.HasSuffix(name, ".html") {
			continue
		}
		pages++
		for _, m := range links.FindAllStringSubmatch(text, -1) {
			file, fragment, _ := strings.Cut(m[1], "#")
			if strings.Contains(file, ":") {
				if strings.HasPrefix(m[0], "src") {
					t.Errorf("%s loads %s", name, m[1])
				}
				continue
			}
			if file == "" {
				file = name
			}
			if _, ok := texts[file]; !ok {
				t.Errorf("%s links to %s, which is not there", name, m[1])
			} else if fragment != "" && !headings[file][fragment] {
				t.Errorf("%s links to %s, which has no such heading", name, m[1])
			}
		}
	}
	if pages != n || pages < 30 {
		t.Errorf("%d pages, write says %d", pages, n)
	}
	var index []struct{ File, Title, Words string }
	text := strings.TrimSuffix(strings.TrimPrefix(texts["index.js"], "const pages = "), ";\n")
	if err := json.Unmarshal([]byte(text), &index); err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, e := range index {
		if texts[e.File] == "" || e.Title == "" {
			t.Errorf("the search knows %+v", e)
		}
		found[e.File] = strings.Contains(e.Words, "checkpoint") || found[e.File]
	}
	if !found["checkpoints.html"] || !strings.Contains(text, "--stop-when") {
		t.Error("the search does not find checkpoints, or a flag")
	}
	if examples := texts["layers-examples.html"]; strings.Count(examples, "<h2") < 100 || !strings.Contains(examples, `id="FC"`) {
		t.Errorf("the page has %d examples of layers, want that of FC among 100", strings.Count(examples, "<h2"))
	}
}
