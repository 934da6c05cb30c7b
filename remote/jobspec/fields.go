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
	Object        // with Fields
	Objects       // a list of them
)

// A Field is a field of a job file, for whoever describes it to others, such as the schema of a resource.
type Field struct {
	Name   string
	Form   Form
	OneOf  []string // the words that a Text may be; none: any text
	Fields []Field  // of an Object
	Doc    string
}

// forms are the types of fields that are not plain values.
var forms = map[reflect.Type]Form{
	reflect.TypeFor[time.Duration](): Duration, reflect.TypeFor[bounds](): Span, reflect.TypeFor[mode](): Text, reflect.TypeFor[transport](): Text,
	reflect.TypeFor[map[string]source](): Sources, reflect.TypeFor[map[string]string](): Labels, reflect.TypeFor[[]string](): Texts, reflect.TypeFor[*checkpoints](): Open,
	reflect.TypeFor[map[string]any](): Open,
}

// Fields returns the fields of a job file, in the order in which its type has them.
func Fields() []Field { return fieldsOf(reflect.TypeFor[file]()) }

func fieldsOf(of reflect.Type) []Field {
	var list []Field
	for _, f := range reflect.VisibleFields(of) {
		t := f.Type
		field := Field{Name: f.Tag.Get("yaml"), OneOf: strings.Fields(f.Tag.Get("one")), Doc: f.Tag.Get("doc")}
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
			case reflect.Struct:
				form, field.Fields = Object, fieldsOf(t)
			case reflect.Slice:
				form, field.Fields = Objects, fieldsOf(t.Elem())
			default:
				form = Text
			}
		}
		field.Form = form
		list = append(list, field)
	}
	return list
}
