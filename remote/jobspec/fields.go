package jobspec

import (
	"fmt"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
)

// source is the files of a dataset: one glob, a list of them, or either under files, with follow beside it.
type source struct {
	Files  globs `yaml:"files"`
	Follow bool  `yaml:"follow"`
}

// UnmarshalYAML takes globs for a source that does not follow.
func (s *source) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.MappingNode {
		return n.Decode(&s.Files)
	}
	for i := 0; i < len(n.Content); i += 2 {
		if key := n.Content[i]; key.Value != "files" && key.Value != "follow" {
			return &yaml.TypeError{Errors: []string{fmt.Sprintf("line %d: field %s not found in data", key.Line, key.Value)}}
		}
	}
	type plain source
	return n.Decode((*plain)(s))
}

// globs is one glob or a list of them.
type globs []string

// UnmarshalYAML takes a scalar for a list of one.
func (g *globs) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		*g = globs{n.Value}
		return nil
	}
	var list []string
	if err := n.Decode(&list); err != nil {
		return err
	}
	*g = list
	return nil
}

// trainers is N or N:MAX.
type trainers struct{ least, most int32 }

// UnmarshalYAML takes the text, whatever YAML makes of two numbers with a colon between them.
func (t *trainers) UnmarshalYAML(n *yaml.Node) (err error) {
	t.least, t.most, err = ParseTrainers(n.Value)
	return atLine(n, err)
}

// mode is sync or async.
type mode job.Mode

// UnmarshalYAML reads the name of a mode.
func (m *mode) UnmarshalYAML(n *yaml.Node) error {
	parsed, err := ParseMode(n.Value)
	*m = mode(parsed)
	return atLine(n, err)
}

// atLine is a mistake in a field, which the decoder collects with the others.
func atLine(n *yaml.Node, err error) error {
	if err == nil {
		return nil
	}
	return &yaml.TypeError{Errors: []string{fmt.Sprintf("line %d: %v", n.Line, err)}}
}

// ParseTrainers reads N or N:MAX; without MAX, most is 0.
func ParseTrainers(value string) (least, most int32, err error) {
	first, second, elastic := strings.Cut(value, ":")
	n, err := strconv.ParseInt(first, 10, 32)
	limit := int64(0)
	if err == nil && elastic {
		limit, err = strconv.ParseInt(second, 10, 32)
	}
	if err != nil || n < 1 || elastic && limit < n {
		return 0, 0, fault.E(fault.InvalidArgument, fault.Got("trainers "+fault.Quote(value)), fault.Want("N or N:MAX, such as 2 or 2:4"))
	}
	return int32(n), int32(limit), nil
}
