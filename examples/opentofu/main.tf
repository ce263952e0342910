# A stack of Muster in OpenTofu or Terraform: docs/opentofu.md.

terraform {
  required_version = ">= 1.5"
  required_providers {
    restapi = {
      source  = "Mastercard/restapi"
      version = ">= 2.0, < 4.0"
    }
    http = {
      source  = "hashicorp/http"
      version = ">= 3.2"
    }
  }
}

variable "muster_url" {
  description = "Address of the controller's API, such as https://c1.example.org:8443"
  type        = string
}

variable "muster_token" {
  description = "Token of an operator: muster user create tofu --role operator"
  type        = string
  sensitive   = true
}

variable "muster_ca" {
  description = "The site's CA: a copy of /var/lib/muster/pki/ca.crt"
  type        = string
  default     = "muster-ca.crt"
}

variable "node" {
  description = "Server that gets the file"
  type        = string
}

variable "path" {
  type    = string
  default = "/etc/motd"
}

variable "greeting" {
  type    = string
  default = "hello"
}

locals {
  stack = "web"
  # What the stack is to be. A template, files and parameters are all that an update may change.
  desired = {
    template = {
      name = "web.yaml"
      text = file("${path.module}/web.yaml")
    }
    parameters = {
      node     = var.node
      path     = var.path
      greeting = var.greeting
    }
  }
}

provider "restapi" {
  uri          = var.muster_url
  root_ca_file = var.muster_ca
  headers = {
    Authorization = "Bearer ${var.muster_token}"
    Content-Type  = "application/json"
  }
}

resource "restapi_object" "stack" {
  path         = "/v1/stacks"
  id_attribute = "name"
  data         = jsonencode(merge({ name = local.stack }, local.desired))
  update_data  = jsonencode(local.desired)
  # The API shows a stack as it stands, which is another object than the one that was sent.
  ignore_all_server_changes = true
}

# Says so in each plan and apply while the stack is not COMPLETE.
check "stack" {
  data "http" "stack" {
    url         = "${var.muster_url}/v1/stacks/${local.stack}"
    ca_cert_pem = file(var.muster_ca)
    request_headers = {
      Authorization = "Bearer ${var.muster_token}"
    }
  }

  assert {
    condition     = jsondecode(data.http.stack.response_body).status == "COMPLETE"
    error_message = "The stack is not COMPLETE: muster stack show web"
  }
}
