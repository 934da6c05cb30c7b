package script_test

import (
	"strings"
	"testing"

	"github.com/edl-go/edl/internal/script"
)

func TestRunDir(t *testing.T) {
	script.RunDir(t, "testdata", func(t *testing.T) func(script.Command) string {
		var said []string
		return func(c script.Command) string {
			switch c.Name {
			case "say":
				said = append(said, strings.Join(c.Args, " "))
				return ""
			case "value":
				return c.Arg("of", "none")
			}
			return strings.Join(said, "\n")
		}
	})
}
