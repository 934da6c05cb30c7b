package jobspec

import (
	"reflect"
	"strings"
	"time"
)

// A Form is how the value of a field of a job file is written.
type Form int

// The forms of fields.
const (
	Text     Form = iota
	Texts         // a list
	Labels        // texts by name
	Integer       // 32 or 64 bits
	Number        // with a fraction
	Flag          // true or false
	Duration      // such as 1m30s
	Span          // an integer N, or the text N:MAX
	Sources       // by name: a text, a list, or an object
	Open          // a word or an object
)

// A Field is a field of a job file, for whoever describes it to others, such as the schema of a resource.
type Field struct {
	Name  string
	Form  Form
	OneOf []string // the words that a Text may be; none: any text
	Doc   string
}

// forms are the types of fields that are not plain values.
var forms = map[reflect.Type]Form{
	reflect.TypeFor[time.Duration](): Duration, reflect.TypeFor[bounds](): Span, reflect.TypeFor[mode](): Text, reflect.TypeFor[transport](): Text,
	reflect.TypeFor[map[string]source](): Sources, reflect.TypeFor[map[string]string](): Labels, reflect.TypeFor[[]string](): Texts, reflect.TypeFor[*checkpoints](): Open,
}

// Fields returns the fields of a job file, in the order in which its type has them.
func Fields() []Field {
	var list []Field
	for _, f := range reflect.VisibleFields(reflect.TypeFor[file]()) {
		t := f.Type
		form, known := forms[t]
		if !known {
			if t.Kind() == reflect.Pointer {
				t = t.Elem()
			}
			switch t.Kind() {
			case reflect.Bool:
				form = Flag
			case reflect.Int32, reflect.Int64:
				form = Integer
			case reflect.Float64:
				form = Number
			default:
				form = Text
			}
		}
		list = append(list, Field{Name: f.Tag.Get("yaml"), Form: form, OneOf: strings.Fields(f.Tag.Get("one")), Doc: f.Tag.Get("doc")})
	}
	return list
}
