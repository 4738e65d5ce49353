package journal

import (
	"math"
	"reflect"
	"strconv"

	"trainopt/sla"
)

// NewRecord returns an empty record of this schema: every number unknown, every list empty, state Planned.
func NewRecord() *Record {
	r := Blank[Record]()
	r.Schema = Schema
	r.State = Planned
	return &r
}

// Blank returns an empty part of a record: every Number is unknown (its zero value would be a measured 0) and every
// list empty instead of null.
//
//	p := journal.Blank[journal.Probe]()
func Blank[T any]() T {
	var v T
	blank(reflect.ValueOf(&v).Elem())
	return v
}

var (
	numberType   = reflect.TypeFor[Number]()
	intervalType = reflect.TypeFor[sla.Interval]()
)

// blank makes every Number of v unknown and every list empty, recursively. Pointers stay nil.
func blank(v reflect.Value) {
	if part, ok := v.Addr().Interface().(interface{ clear() }); ok {
		part.clear()
		return
	}
	switch {
	case v.Type() == numberType:
		v.Set(reflect.ValueOf(Unknown()))
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 0, 0))
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() {
				blank(f)
			}
		}
	}
}

// tidy returns a copy of a value in the form in which it is written: lists empty instead of null, floats with nine
// significant digits, and values that JSON cannot represent as unknown: a Number or pointer as null, an Interval as
// the zero Interval ("not measured"), a plain float as 0. A stray NaN therefore never prevents the writing of a
// record.
func tidy(v reflect.Value) reflect.Value {
	if v.Type() == numberType || formed[v.Type()] {
		return v // tidied by its own MarshalJSON
	}
	if v.Type() == intervalType && !finite(v) {
		return reflect.Zero(v.Type())
	}
	switch v.Kind() {
	case reflect.Float64:
		return reflect.ValueOf(nineDigits(v.Float())).Convert(v.Type())
	case reflect.Pointer:
		if v.IsNil() || !finite(v.Elem()) {
			return reflect.Zero(v.Type())
		}
		p := reflect.New(v.Type().Elem())
		p.Elem().Set(tidy(v.Elem()))
		return p
	case reflect.Slice:
		s := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		for i := range v.Len() {
			s.Index(i).Set(tidy(v.Index(i)))
		}
		return s
	case reflect.Map:
		m := reflect.MakeMapWithSize(v.Type(), v.Len())
		for it := v.MapRange(); it.Next(); {
			m.SetMapIndex(it.Key(), tidy(it.Value()))
		}
		return m
	case reflect.Struct:
		s := reflect.New(v.Type()).Elem()
		s.Set(v)
		for i := range v.NumField() {
			if f := s.Field(i); f.CanSet() {
				f.Set(tidy(v.Field(i)))
			}
		}
		return s
	}
	return v
}

// finite reports whether v is not a float, or Interval with a float, that is NaN or infinite.
func finite(v reflect.Value) bool {
	switch {
	case v.Kind() == reflect.Float64:
		return !math.IsNaN(v.Float()) && !math.IsInf(v.Float(), 0)
	case v.Type() == intervalType:
		for i := range v.NumField() {
			if !finite(v.Field(i)) {
				return false
			}
		}
	}
	return true
}

func nineDigits(f float64) float64 {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return 0
	}
	r, _ := strconv.ParseFloat(strconv.FormatFloat(f, 'g', 9, 64), 64)
	return r
}
