// Command site writes the documentation as a static site: the pages of docs, the examples of the DSL with what they print, and a search over both. It needs nothing of another site, and its pages can be opened as
// files.
//
//	go -C tools/site run . -out ../../bin/site
//
// site.go reads pages and links them, examples.go reads examples of packages, and page has the template, the style and the script.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	root := flag.String("root", "../..", "the `DIR` of the repository")
	out := flag.String("out", "../../bin/site", "write to `DIR`, which is made anew")
	flag.Parse()
	n, err := write(*root, *out)
	if err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
	fmt.Printf("%d pages in %s\n", n, *out)
}
