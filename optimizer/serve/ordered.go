package serve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
)

// orderedObject is a JSON object whose fields keep their order.
type orderedObject []field

type field struct {
	name  string
	value any // float64, string, bool, nil, orderedObject or []any
}

func (o *orderedObject) UnmarshalJSON(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	v, err := decodeValue(d)
	if err != nil {
		return err
	}
	object, ok := v.(orderedObject)
	if !ok {
		return fmt.Errorf("want an object")
	}
	*o = object
	return nil
}

func decodeValue(d *json.Decoder) (any, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t {
	case json.Delim('{'):
		object := orderedObject{}
		for d.More() {
			name, err := d.Token()
			if err != nil {
				return nil, err
			}
			v, err := decodeValue(d)
			if err != nil {
				return nil, err
			}
			object = append(object, field{name.(string), v})
		}
		_, err = d.Token()
		return object, err
	case json.Delim('['):
		list := []any{}
		for d.More() {
			v, err := decodeValue(d)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err = d.Token()
		return list, err
	}
	return t, nil
}

func (o orderedObject) get(name string) any {
	for _, f := range o {
		if f.name == name {
			return f.value
		}
	}
	return nil
}

func (o orderedObject) number(name string) float64 {
	if v, ok := o.get(name).(float64); ok {
		return v
	}
	return math.NaN()
}

func (o orderedObject) text(name string) string {
	v, _ := o.get(name).(string)
	return v
}

// rowsOf returns a list of objects.
func rowsOf(v any) []orderedObject {
	list, _ := v.([]any)
	var out []orderedObject
	for _, x := range list {
		o, ok := x.(orderedObject)
		if !ok {
			return nil
		}
		out = append(out, o)
	}
	return out
}
