package operator

import (
	"bytes"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/jobspec"
)

//go:generate sh -c "go run ../../../cmd/edl operator --crd > ../../../deploy/kubernetes/trainingjob.yaml"

// A schema3 is as much of an OpenAPI v3 schema as a definition needs. It is structural: each value has a type, or says that it has several.
type schema3 struct {
	Description string             `json:"description,omitempty"`
	Type        string             `json:"type,omitempty"`
	Format      string             `json:"format,omitempty"`
	Properties  map[string]schema3 `json:"properties,omitempty"`
	Additional  *schema3           `json:"additionalProperties,omitempty"`
	Items       *schema3           `json:"items,omitempty"`
	Required    []string           `json:"required,omitempty"`
	Enum        []string           `json:"enum,omitempty"`
	Pattern     string             `json:"pattern,omitempty"`
	Minimum     *int64             `json:"minimum,omitempty"`
	Maximum     *int64             `json:"maximum,omitempty"`
	MaxLength   int64              `json:"maxLength,omitempty"`
	MaxItems    int64              `json:"maxItems,omitempty"`
	MaxFields   int64              `json:"maxProperties,omitempty"`
	Default     any                `json:"default,omitempty"`
	Nullable    bool               `json:"nullable,omitempty"`
	Open        bool               `json:"x-kubernetes-preserve-unknown-fields,omitempty"`
	IntOrString bool               `json:"x-kubernetes-int-or-string,omitempty"`
	AnyOf       []schema3          `json:"anyOf,omitempty"`
	ListType    string             `json:"x-kubernetes-list-type,omitempty"`
	ListKeys    []string           `json:"x-kubernetes-list-map-keys,omitempty"`
	Rules       []rule             `json:"x-kubernetes-validations,omitempty"`
}

// A rule is a condition in CEL that the API server checks.
type rule struct {
	Rule    string `json:"rule"`
	Message string `json:"message"`
}

// A column is what kubectl get prints.
type column struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	JSONPath string `json:"jsonPath"`
	Priority int    `json:"priority,omitempty"` // above 0: with -o wide only
}

// Bounds of the texts and lists of a spec. The API server bounds the cost of rules by them.
const (
	maxText  = 1024
	maxTexts = 1024
	maxNames = 32
	maxValue = 4096 // of texts by name
)

// Definition returns the CustomResourceDefinition of TrainingJobs as YAML: the fields of the job file as package jobspec has them, and those of Spec and Status.
func Definition() ([]byte, error) {
	root := schema3{Type: "object", Description: "TrainingJob is a job that EDL runs.", Required: []string{"spec"},
		Properties: map[string]schema3{"spec": specSchema(), "status": statusSchema()},
		Rules: []rule{{Rule: `self.metadata.name.matches('^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$') && self.metadata.name != 'nodes'`,
			Message: "the name of a TrainingJob has up to 63 lower-case letters, digits and '-', and is not nodes"}}}
	columns := []column{{Name: "State", Type: "string", JSONPath: ".status.state"}, {Name: "Trainers", Type: "integer", JSONPath: ".status.trainers"},
		{Name: "Progress", Type: "integer", JSONPath: ".status.progress"}, {Name: "Left", Type: "string", JSONPath: ".status.timeLeft"},
		{Name: "Loss", Type: "string", JSONPath: ".status.loss"}, {Name: "Records", Type: "integer", JSONPath: ".status.records", Priority: 1},
		{Name: "Message", Type: "string", JSONPath: ".status.message", Priority: 1}, {Name: "Age", Type: "date", JSONPath: ".metadata.creationTimestamp"}}
	definition := map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": Resource + "." + Group},
		"spec": map[string]any{
			"group": Group, "scope": "Namespaced",
			"names": map[string]any{"kind": Kind, "listKind": Kind + "List", "plural": Resource, "singular": strings.ToLower(Kind), "shortNames": []string{"tj"}, "categories": []string{"all"}},
			"versions": []any{map[string]any{
				"name": Version, "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": root}, "additionalPrinterColumns": columns,
				"subresources": map[string]any{"status": map[string]any{}, "scale": map[string]any{"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.trainers"}},
			}},
		},
	}
	b, err := yaml.Marshal(definition)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, Kind, err)
	}
	head := fmt.Sprintf("# The resource %s. \"edl operator --crd\" has written this.\n", Kind)
	return bytes.Join([][]byte{[]byte(head), b}, nil), nil
}

// specSchema is that of the job file, with the fields of Spec.
func specSchema() schema3 {
	s := schema3{Type: "object", Description: "Spec is a job file, with a few fields more. Of a job that is there, only replicas, suspend, ttlSecondsAfterFinished and labels may change.",
		Properties: map[string]schema3{}}
	var fixed []string
	for _, f := range jobspec.Fields() {
		if f.Name == "name" { // that of the resource
			continue
		}
		s.Properties[f.Name] = formSchema(f)
		if f.Form != jobspec.Sources && f.Form != jobspec.Open && f.Form != jobspec.Labels && f.Form != jobspec.Object { // rules do not see values of several types
			fixed = append(fixed, f.Name)
		}
	}
	least, day := int64(0), int64(1)<<31-1
	s.Properties["replicas"] = schema3{Type: "integer", Format: "int32", Minimum: &least, Maximum: new(int64(4096)), Default: 0,
		Description: "how many trainers an elastic job is to have, within its bounds, as kubectl scale sets it; 0: as many as there is room for"}
	s.Properties["suspend"] = schema3{Type: "boolean", Default: false, Description: "let the job make a checkpoint, end its pods, and wait; false again lets it go on"}
	s.Properties["ttlSecondsAfterFinished"] = schema3{Type: "integer", Format: "int32", Minimum: &least, Maximum: &day, Description: "delete the resource so long after the job has ended; absent: never"}
	name := schema3{Type: "string", MaxLength: 253}
	s.Properties["programFrom"] = schema3{Type: "object", Description: "a ConfigMap with the program, in place of a file", Required: []string{"configMap", "key"},
		Properties: map[string]schema3{"configMap": name, "key": name}}
	s.Rules = []rule{
		{`has(self.program) != has(self.programFrom)`, "a job has a program or programFrom"},
		{`self.replicas == 0 || self.replicas >= ` + fewestTrainers, "replicas are fewer than the trainers that the job starts with"},
		{`self.replicas == 0 || self.replicas <= ` + mostTrainers, "replicas are more than the trainers that the job may have (trainers: N:MAX)"},
		{`!has(self.trainers_max) || !has(self.trainers) || type(self.trainers) != string || !self.trainers.contains(':')`, "trainers_max is given, and trainers have a maximum"},
		{`has(self.programFrom) == has(oldSelf.programFrom) && (!has(self.programFrom) || self.programFrom == oldSelf.programFrom)`, "programFrom of a job does not change"},
	}
	for _, f := range fixed {
		s.Rules = append(s.Rules, rule{fmt.Sprintf(`has(self.%[1]s) == has(oldSelf.%[1]s) && (!has(self.%[1]s) || self.%[1]s == oldSelf.%[1]s)`, f), f + " of a job does not change"})
	}
	return s
}

// CEL for the fewest and the most trainers of a spec.
const (
	fewestTrainers = `(!has(self.trainers) ? 1 : type(self.trainers) == int ? self.trainers : int(self.trainers.split(':')[0]))`
	mostTrainers   = `(has(self.trainers_max) && self.trainers_max > 0 ? self.trainers_max : !has(self.trainers) ? 1 : type(self.trainers) == int ? self.trainers : ` +
		`int(self.trainers.split(':')[self.trainers.contains(':') ? 1 : 0]))`
)

// formSchema is the schema of a field of the job file.
func formSchema(f jobspec.Field) schema3 {
	s := schema3{Description: f.Doc}
	switch f.Form {
	case jobspec.Text:
		s.Type, s.MaxLength, s.Enum = "string", maxText, f.OneOf
	case jobspec.Texts:
		s.Type, s.MaxItems, s.Items = "array", maxTexts, &schema3{Type: "string", MaxLength: maxText}
	case jobspec.Labels:
		s.Type, s.MaxFields, s.Additional = "object", maxNames, &schema3{Type: "string", MaxLength: maxValue}
	case jobspec.Integer:
		s.Type, s.Format = "integer", "int64"
	case jobspec.Number:
		least := int64(0)
		s.Type, s.Minimum = "number", &least
	case jobspec.Flag:
		s.Type = "boolean"
	case jobspec.Duration:
		s.Type, s.MaxLength, s.Pattern = "string", 32, `^([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+$`
	case jobspec.Span:
		s.IntOrString, s.AnyOf = true, []schema3{{Type: "integer"}, {Type: "string"}}
		s.MaxLength, s.Pattern = 11, `^[0-9]{1,5}(:[0-9]{1,5})?$`
	case jobspec.Sources:
		s.Type, s.MaxFields, s.Additional = "object", maxTexts, &schema3{Open: true}
	case jobspec.Open:
		s.Open = true
	case jobspec.Object:
		s.Type, s.Properties = "object", propertiesOf(f.Fields)
	case jobspec.Objects:
		s.Type, s.MaxItems, s.Items = "array", maxNames, &schema3{Type: "object", Properties: propertiesOf(f.Fields)}
	}
	return s
}

func propertiesOf(fields []jobspec.Field) map[string]schema3 {
	all := map[string]schema3{}
	for _, f := range fields {
		all[f.Name] = formSchema(f)
	}
	return all
}

// statusSchema is that of Status.
func statusSchema() schema3 {
	text, number := schema3{Type: "string", Nullable: true}, schema3{Type: "integer", Format: "int64", Nullable: true}
	at := schema3{Type: "string", Format: "date-time", Nullable: true}
	said := func(s schema3, what string) schema3 { s.Description = what; return s }
	condition := schema3{Type: "object", Required: []string{"type", "status", "reason", "lastTransitionTime"}, Properties: map[string]schema3{
		"type": {Type: "string"}, "status": {Type: "string", Enum: []string{"True", "False", "Unknown"}}, "reason": {Type: "string"}, "message": {Type: "string"},
		"observedGeneration": {Type: "integer", Format: "int64"}, "lastTransitionTime": {Type: "string", Format: "date-time"}}}
	word := schema3{Type: "string"}
	wait := schema3{Type: "object", Required: []string{"who", "what"}, Properties: map[string]schema3{"who": word, "what": word, "by": {Type: "array", Items: &word},
		"since": {Type: "string", Format: "date-time"}, "lastError": said(word, "of the last attempt to end the wait, or the words of the cluster")}}
	return schema3{Type: "object", Properties: map[string]schema3{
		"waits":              {Type: "array", Items: &wait, Nullable: true, Description: "what roles wait for, as edl why tells it; the root of the matter first"},
		"state":              said(text, "one word: that of edl jobs, or Pending, Suspended, Complete or Failed"),
		"conditions":         {Type: "array", Items: &condition, ListType: "map", ListKeys: []string{"type"}, Description: "Created, Running, Suspended, Complete and Failed"},
		"observedGeneration": number,
		"job":                said(text, "of the listener, for edl why and edl logs"),
		"trainers":           said(number, "that run"),
		"asked":              said(number, "spec.replicas as the listener was told last"),
		"steps":              number, "records": said(number, "that were trained, each as often as it was"),
		"progress": said(number, "percent of the records of all passes"), "timeLeft": text, "loss": said(text, "of the last step"),
		"message":    said(text, "what the job waits for, or why it has failed"),
		"refused":    said(text, "why what the spec says last could not be done, such as to suspend the job"),
		"checkpoint": said(text, "the last one, as STORE@STEPS"),
		"startTime":  at, "completionTime": at, "updateTime": at}}
}
