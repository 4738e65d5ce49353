package journal

import (
	"math"
	"reflect"
	"strconv"

	"trainopt/sla"
)

// NewRecord is an empty record of this schema: every number unknown, every list empty, no state yet.
func NewRecord() *Record {
	r := Blank[Record]()
	r.Schema = Schema
	r.State = Planned
	return &r
}

// Blank is the value of a part of a record about which nothing is known: every Number unknown (its zero
// value would claim a measured 0) and every list empty rather than null.
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

func blank(v reflect.Value) {
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

// tidy copies a value as it is written: lists empty instead of null, floats with nine significant
// digits, and what JSON has no word for made unknown: a Number or pointer null, an Interval the zero
// one ("not measured"), a plain float 0. So a stray NaN never costs the record.
func tidy(v reflect.Value) reflect.Value {
	if v.Type() == numberType {
		return v // knows how to write itself
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

// finite is false for a float, or an Interval with one, that is NaN or infinite; true for all else.
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
