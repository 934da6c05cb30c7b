// Command hello takes the place of edl in tests of images: it is small, and says which binary it was asked about.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() { fmt.Printf("{%q: %q}\n", "binary", filepath.Base(os.Args[len(os.Args)-1])) }
