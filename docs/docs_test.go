package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pages returns the texts of all pages, by path from this folder.
func pages(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	examples, err := filepath.Glob("../examples/*/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range slices.Concat(paths, examples, []string{"../README.md"}) {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		texts[path] = string(b)
	}
	return texts
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	noWord  = regexp.MustCompile(`[^a-z0-9 -]`)
)

// anchor is the fragment by which a heading is linked.
func anchor(heading string) string {
	return strings.ReplaceAll(noWord.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}

// Every link to a file of the project leads to one, and every fragment to a heading of it.
func TestLinks(t *testing.T) {
	texts := pages(t)
	for page, text := range texts {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			target, fragment, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			path := page
			if target != "" {
				path = filepath.Join(filepath.Dir(page), target)
			}
			b, err := os.ReadFile(path)
			if err != nil {
				t.Errorf("%s links to %s: %v", page, m[1], err)
				continue
			}
			found := fragment == ""
			for _, h := range heading.FindAllStringSubmatch(string(b), -1) {
				found = found || anchor(h[1]) == fragment
			}
			if !found {
				t.Errorf("%s links to %s: there is no such heading", page, m[1])
			}
		}
	}
}

// excerpt is a block of Go that names the file it is a part of.
var excerpt = regexp.MustCompile("(?ms)^```go (\\S+)\n(.*?)^```$")

// Go on a page that names a file is there as it stands, but for the indentation: so the tests that run the file run what the page says.
func TestExcerpts(t *testing.T) {
	plain := func(text string) string {
		var lines []string
		for line := range strings.Lines(text) {
			lines = append(lines, strings.TrimSpace(line))
		}
		return strings.Join(lines, "\n")
	}
	found := 0
	for page, text := range pages(t) {
		for _, m := range excerpt.FindAllStringSubmatch(text, -1) {
			b, err := os.ReadFile(filepath.Join("..", m[1]))
			if err != nil {
				t.Errorf("%s: %v", page, err)
				continue
			}
			if found++; !strings.Contains(plain(string(b)), plain(m[2])) {
				t.Errorf("%s has Go that is not in %s:\n%s", page, m[1], m[2])
			}
		}
	}
	if found < 5 {
		t.Errorf("found %d excerpts, want at least 5", found)
	}
}

// sources calls f with every Go file of the project.
func sources(t *testing.T, f func(path, text string)) {
	t.Helper()
	err := filepath.WalkDir("..", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() && d.Name() == ".git" {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, ".pb.go") {
			return nil
		}
		b, err := os.ReadFile(path)
		f(path, string(b))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Every test that the table of defects names exists in the package that it names, and so does every script.
func TestDefectsHaveTheirTests(t *testing.T) {
	declared := map[string]map[string]bool{} // by package folder, below remote where there
	declaration := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	sources(t, func(path, text string) {
		folder := filepath.ToSlash(filepath.Dir(path))
		if declared[folder] == nil {
			declared[folder] = map[string]bool{}
		}
		for _, m := range declaration.FindAllStringSubmatch(text, -1) {
			declared[folder][m[1]] = true
		}
	})
	_, table, ok := strings.Cut(pages(t)["reliability.md"], "| defect | tests |")
	if !ok {
		t.Fatal("reliability.md has no table of defects")
	}
	inPackage := regexp.MustCompile("`([\\w/]+)` ([^;|]+)")
	name := regexp.MustCompile(`\b(Test\w+|[a-z][a-z0-9]*(?:_[a-z0-9]+)+)\b`)
	found := 0
	for _, m := range inPackage.FindAllStringSubmatch(table, -1) {
		var folders []string
		for folder := range declared {
			if folder == "../"+m[1] || strings.HasSuffix(folder, "/"+m[1]) {
				folders = append(folders, folder)
			}
		}
		for _, test := range name.FindAllString(m[2], -1) {
			exists := false
			for _, folder := range folders {
				exists = exists || declared[folder][test]
				for _, script := range []string{test, strings.ReplaceAll(test, "_", "-")} {
					matches, _ := filepath.Glob(filepath.Join(folder, "testdata", script+"*"))
					exists = exists || len(matches) > 0
				}
			}
			if !exists {
				t.Errorf("the table of defects names %s of %s, which does not exist", test, m[1])
			}
			found++
		}
	}
	if found < 60 {
		t.Errorf("found %d tests in the table of defects, want at least 60", found)
	}
}
