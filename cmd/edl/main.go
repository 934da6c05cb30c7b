// Command edl trains programs on one machine or many, runs saved ones, and shows what is in EDL's files. docs/commands.md is the manual.
package main

import (
	"os"

	"github.com/edl-go/edl/edlcmd"
)

func main() { os.Exit(edlcmd.Main()) }
