package plainyaml_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/edl-go/edl/internal/plainyaml"
	"gopkg.in/yaml.v3"
)

func TestPlain(t *testing.T) {
	type spec struct {
		Count *int32            `yaml:"count"`
		On    bool              `yaml:"on"`
		Time  time.Duration     `yaml:"time"`
		Names []string          `yaml:"names"`
		Data  map[string]string `yaml:"data"`
		Rate  float32           `yaml:"rate"`
		Seed  uint64            `yaml:"seed"`
	}
	for text, want := range map[string]string{
		"words of a text\nin lines":  "line 1: got the text words o..., want a file of fields",
		"[1, 2]":                     "line 1: got a list, want a file of fields",
		"count: many\non: 3":         "line 1: got the text many, want a whole number; line 2: got the number 3, want true or false",
		"time: soon":                 "line 1: got the text soon, want a time, such as 30s or 5m",
		"names: one\ndata: two":      "line 1: got the text one, want a list; line 2: got the text two, want NAME: VALUE for each",
		"rate: fast\nseed: -1":       "line 1: got the text fast, want a number; line 2: got the number -1, want a whole number from 0",
		"count: 1\nother: 2\non: []": "line 2: unknown field other; line 3: got a list, want true or false",
	} {
		d := yaml.NewDecoder(strings.NewReader(text))
		d.KnownFields(true)
		if err := plainyaml.Plain(d.Decode(&spec{}), "a file of fields"); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	other := errors.New("other")
	if err := plainyaml.Plain(other, ""); err != other {
		t.Error(err)
	}
}
