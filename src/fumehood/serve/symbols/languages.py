"""Which grammar reads a file, by its name, and what in its trees is a definition. Pure.

A query gives for each definition its name as `@name` and the whole as the capture that names its kind. `@scope` is no
definition of its own but a container of others (Rust's `impl`), and `@container` names one that stands elsewhere (a
receiver in Go, the class in C++'s `A::f`). See tree-sitter.github.io, "Queries".
"""

from dataclasses import dataclass

KINDS = ("function", "method", "class", "interface", "type", "enum", "constant", "variable", "module", "macro")


@dataclass(frozen=True, slots=True, kw_only=True)
class Grammar:
    """The wheel of a grammar, the function in it that gives the language, and the query over its trees."""

    module: str
    function: str = "language"
    query: str


_PYTHON = """
(function_definition name: (identifier) @name) @function
(class_definition name: (identifier) @name) @class
(module (expression_statement (assignment left: (identifier) @name)) @variable)
(class_definition body: (block (expression_statement (assignment left: (identifier) @name)) @variable))
(type_alias_statement left: (type (identifier) @name)) @type
"""
_JAVASCRIPT = """
[(function_declaration name: (identifier) @name) (generator_function_declaration name: (identifier) @name)] @function
(class_declaration name: (_) @name) @class
(method_definition name: (_) @name) @method
(variable_declarator name: (identifier) @name value: [(arrow_function) (function_expression)]) @function
(program (lexical_declaration (variable_declarator name: (identifier) @name) @variable))
(program (variable_declaration (variable_declarator name: (identifier) @name) @variable))
(export_statement (lexical_declaration (variable_declarator name: (identifier) @name) @variable))
(assignment_expression left: (member_expression property: (property_identifier) @name)
  right: [(arrow_function) (function_expression)]) @function
(pair key: (property_identifier) @name value: [(arrow_function) (function_expression)]) @function
"""
_TYPESCRIPT = (
    _JAVASCRIPT
    + """
(abstract_class_declaration name: (_) @name) @class
(interface_declaration name: (_) @name) @interface
(type_alias_declaration name: (_) @name) @type
(enum_declaration name: (_) @name) @enum
(internal_module name: (_) @name) @module
(module name: (_) @name) @module
(function_signature name: (identifier) @name) @function
[(method_signature name: (_) @name) (abstract_method_signature name: (_) @name)] @method
(public_field_definition name: (_) @name) @variable
"""
)
_GO = """
(function_declaration name: (identifier) @name) @function
(method_declaration receiver: (parameter_list (parameter_declaration type: (_) @container))
  name: (field_identifier) @name) @method
(type_spec name: (type_identifier) @name type: (interface_type)) @interface
(type_spec name: (type_identifier) @name) @type
(type_alias name: (type_identifier) @name) @type
(const_spec name: (identifier) @name) @constant
(source_file (var_declaration (var_spec name: (identifier) @name) @variable))
(source_file (var_declaration (var_spec_list (var_spec name: (identifier) @name) @variable)))
(package_clause (package_identifier) @name) @module
"""
_RUST = """
(function_item name: (identifier) @name) @function
(function_signature_item name: (identifier) @name) @function
[(struct_item name: (_) @name) (union_item name: (_) @name) (type_item name: (_) @name)] @type
(enum_item name: (_) @name) @enum
(trait_item name: (_) @name) @interface
(mod_item name: (_) @name) @module
[(const_item name: (_) @name) (static_item name: (_) @name)] @constant
(macro_definition name: (_) @name) @macro
(impl_item type: (_) @name) @scope
"""
_JAVA = """
[(class_declaration name: (_) @name) (record_declaration name: (_) @name)] @class
[(interface_declaration name: (_) @name) (annotation_type_declaration name: (_) @name)] @interface
(enum_declaration name: (_) @name) @enum
(enum_constant name: (_) @name) @constant
[(method_declaration name: (_) @name) (constructor_declaration name: (_) @name)] @method
(field_declaration declarator: (variable_declarator name: (identifier) @name)) @variable
(package_declaration (_) @name) @module
"""
_C = """
(function_declarator declarator: (identifier) @name) @function
(struct_specifier name: (_) @name body: (_)) @type
(union_specifier name: (_) @name body: (_)) @type
(enum_specifier name: (_) @name body: (_)) @enum
(enumerator name: (identifier) @name) @constant
(type_definition declarator: (type_identifier) @name) @type
[(preproc_def name: (identifier) @name) (preproc_function_def name: (identifier) @name)] @macro
(translation_unit (declaration declarator: (init_declarator declarator: (identifier) @name)) @variable)
(translation_unit (declaration declarator: (identifier) @name) @variable)
(function_definition declarator: (function_declarator declarator: (identifier) @name)) @function
(function_definition declarator: (pointer_declarator
  declarator: (function_declarator declarator: (identifier) @name))) @function
"""
_CPP = (
    _C
    + """
(class_specifier name: (_) @name body: (_)) @class
(namespace_definition name: (_) @name) @module
(alias_declaration name: (_) @name) @type
(concept_definition name: (_) @name) @type
(function_declarator declarator: (field_identifier) @name) @method
(function_declarator declarator: [(destructor_name) (operator_name)] @name) @method
(function_declarator declarator: (qualified_identifier scope: (_) @container name: (_) @name)) @method
(function_definition declarator: (function_declarator declarator: (field_identifier) @name)) @method
(function_definition declarator: (function_declarator
  declarator: (qualified_identifier scope: (_) @container name: (_) @name))) @method
"""
)
_RUBY = """
[(method name: (_) @name) (singleton_method name: (_) @name) (alias name: (_) @name)] @method
(class name: (_) @name) @class
(module name: (_) @name) @module
(assignment left: (constant) @name) @constant
"""

GRAMMARS = {
    "python": Grammar(module="tree_sitter_python", query=_PYTHON),
    "javascript": Grammar(module="tree_sitter_javascript", query=_JAVASCRIPT),
    "typescript": Grammar(module="tree_sitter_typescript", function="language_typescript", query=_TYPESCRIPT),
    "tsx": Grammar(module="tree_sitter_typescript", function="language_tsx", query=_TYPESCRIPT),
    "go": Grammar(module="tree_sitter_go", query=_GO),
    "rust": Grammar(module="tree_sitter_rust", query=_RUST),
    "java": Grammar(module="tree_sitter_java", query=_JAVA),
    "c": Grammar(module="tree_sitter_c", query=_C),
    "cpp": Grammar(module="tree_sitter_cpp", query=_CPP),
    "ruby": Grammar(module="tree_sitter_ruby", query=_RUBY),
}

# A header is read as C++, which reads C's as well.
_ENDINGS = {
    "python": "py pyi pyw",
    "javascript": "js mjs cjs jsx",
    "typescript": "ts mts cts",
    "tsx": "tsx",
    "go": "go",
    "rust": "rs",
    "java": "java",
    "c": "c",
    "cpp": "h cc cpp cxx c++ hh hpp hxx h++ ipp inl",
    "ruby": "rb rake gemspec ru",
}
_BY_ENDING = {ending: language for language, endings in _ENDINGS.items() for ending in endings.split()}
_BY_NAME = {"rakefile": "ruby", "gemfile": "ruby", "guardfile": "ruby"}


def language(path: bytes) -> str | None:
    """The language of a file by its name; None where no grammar reads it."""
    name = path.rpartition(b"/")[2].decode("utf-8", "replace").lower()
    stem, dot, ending = name.rpartition(".")
    return _BY_NAME.get(name) or (_BY_ENDING.get(ending) if dot and stem else None)
